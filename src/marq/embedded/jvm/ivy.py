"""Runs the Ivy that pyspark carries: the one way marq fetches jars.

No repository is named here or in the lock: Ivy's default is right, and a mirror set up for the JVM
is honoured. Ivy's own cache lives under ours, so a poisoned one can be thrown away and the user's
is never touched.
"""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from xml.sax.saxutils import quoteattr

import msgspec

from marq.errors import RuntimeFailed

# A dead network must end in a sentence, not in the minutes a connect may hang by default.
_TIMEOUTS = (
    "-Dsun.net.client.defaultConnectTimeout=15000",
    "-Dsun.net.client.defaultReadTimeout=60000",
)
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


class Root(msgspec.Struct, frozen=True):
    """One module to fetch, with or without what it depends on."""

    organisation: str
    module: str
    revision: str
    transitive: bool = False


class IvyFailed(Exception):
    """Ivy did not bring what was asked for; the text is all it printed."""


def find() -> Path:
    """Ivy's jar inside pyspark, found without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        for jar in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return jar
    raise RuntimeFailed(
        "the embedded runtime fetches Kafka with pyspark's Ivy and pyspark is not installed: "
        "pip install 'marq[spark]'."
    )


def retrieve(
    java: Path, roots: Iterable[Root], cache: Path, into: Path, on_step: Callable[[], None]
) -> None:
    """Put the jars of `roots` into `into`; `on_step` is called twice a jar: found, fetched."""
    module = into / "ivy.xml"
    module.write_text(_module_file(roots))
    command = [
        *(str(java), *_TIMEOUTS, f"-Divy.default.ivy.user.dir={cache}"),
        *("-cp", str(find()), "org.apache.ivy.Main", "-cache", str(cache / "cache")),
        *("-ivy", str(module), "-retrieve", str(into / _PATTERN)),
    ]
    code, printed = _run(command, on_step)
    module.unlink()
    if code != 0:
        raise IvyFailed(printed)


def _run(command: list[str], on_step: Callable[[], None]) -> tuple[int, str]:
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        with contextlib.ExitStack() as on_error:
            on_error.callback(process.kill)  # an interrupted fetch leaves no Java behind
            for line in process.stdout:
                lines.append(line)
                if line.startswith("\tfound ") or "[SUCCESSFUL ]" in line:
                    on_step()
            on_error.pop_all()
    return process.returncode, "".join(lines)


def _module_file(roots: Iterable[Root]) -> str:
    rows = "\n".join(
        f"<dependency org={quoteattr(root.organisation)} name={quoteattr(root.module)}"
        f" rev={quoteattr(root.revision)} conf='default->default'"
        f" transitive='{str(root.transitive).lower()}'/>"
        for root in roots
    )
    return (
        "<ivy-module version='2.0'><info organisation='marq' module='jars'/>"
        f"<dependencies>\n{rows}\n</dependencies></ivy-module>\n"
    )
