"""One broker as a child process: formatted once, started again and again."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from marq.embedded import children, config, files
from marq.embedded.files import RuntimeHome
from marq.embedded.layout import Layout, Node
from marq.errors import RuntimeFailed

_LOG4J = Path(__file__).with_name("log4j2.properties")
_META = "meta.properties"


@dataclass(frozen=True, slots=True)
class Kit:
    """What it takes to run Kafka here: a Java, the jars, a directory and its layout."""

    java: Path
    jars: tuple[Path, ...]
    home: RuntimeHome
    layout: Layout

    def environment(self) -> dict[str, str]:
        """Exactly the checked jars, by the environment: a command line stays readable."""
        return {**os.environ, "CLASSPATH": os.pathsep.join(map(str, self.jars))}


def format_storage(kit: Kit) -> None:
    """Give every broker its formatted, empty data directory, once for all time.

    Kafka formats a folder beside it that is then renamed: a data directory is absent or whole,
    and one that exists is never formatted again, so nothing in it can be lost here.
    """
    new = [node for node in kit.layout.nodes if not kit.home.data(node.id).exists()]
    runs = [_formatting(kit, node) for node in new]
    for node, (folder, process) in zip(new, runs, strict=True):
        printed, _ = process.communicate()
        if process.returncode != 0:
            raise RuntimeFailed(f"Kafka could not format {folder}: {printed.strip()[-500:]}")
        os.rename(folder / "data", kit.home.data(node.id))
        shutil.rmtree(folder)
    for node in kit.layout.nodes:
        if not (kit.home.data(node.id) / _META).is_file():
            raise RuntimeFailed(
                f"{kit.home.data(node.id)} has no {_META}, so Kafka cannot read it: "
                "restore the directory, or name another one with --data."
            )


def _formatting(kit: Kit, node: Node) -> tuple[Path, subprocess.Popen[str]]:
    place = kit.home.broker(node.id)
    files.make_private(place)
    for left in place.glob("format-*"):
        shutil.rmtree(left)
    folder = Path(tempfile.mkdtemp(prefix="format-", dir=place))
    properties = folder / "server.properties"
    properties.write_text(config.server_properties(kit.layout, node, folder / "data"))
    tool = ["-XX:TieredStopAtLevel=1", f"-Dmarq.log={folder / 'log'}", *_logging()]
    arguments = ["format", "-t", kit.layout.cluster_id, "-c", str(properties)]
    process = subprocess.Popen(
        [str(kit.java), *tool, "kafka.tools.StorageTool", *arguments],
        env=kit.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return folder, process


@dataclass(frozen=True, slots=True)
class BrokerChild:
    """One broker of a kit."""

    kit: Kit
    node: Node

    @property
    def name(self) -> str:
        return f"broker {self.node.id}"

    def spawn(self) -> subprocess.Popen[bytes]:
        kit, node, home = self.kit, self.node, self.kit.home
        properties = home.properties(node.id)
        properties.write_text(config.server_properties(kit.layout, node, home.data(node.id)))
        heap = config.heap(len(kit.layout.nodes))
        crash = f"-XX:ErrorFile={home.logs / f'broker-{node.id}.crash'}"
        options = [f"-Xmx{heap}", "-XX:+UseG1GC", "-XX:+ExitOnOutOfMemoryError", crash]
        log = f"-Dmarq.log={home.broker_log(node.id)}"
        command = [str(kit.java), *options, log, *_logging(), "kafka.Kafka", str(properties)]
        with home.broker_output(node.id).open("wb") as output:
            return children.spawn(command, kit.environment(), output)

    def said(self) -> str:
        return last_lines(self.kit.home, self.node.id)


def _logging() -> list[str]:
    return [f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}"]


def last_lines(home: RuntimeHome, node: int, count: int = 8) -> str:
    """The end of what a broker logged, and of what its JVM printed if it printed anything."""
    logs = (home.broker_log(node), home.broker_output(node))
    return "\n".join(line for log in logs for line in children.tail(log, count))
