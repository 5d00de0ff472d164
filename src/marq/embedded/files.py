"""What a runtime's directory holds, and how its small files are read and written."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from marq.errors import ConfigError, RuntimeFailed

T = TypeVar("T")

UNFINISHED = ".marq-"
"""How the names of files begin that are not whole yet."""


@dataclass(frozen=True, slots=True)
class RuntimeHome:
    """The directory of one runtime."""

    path: Path

    @property
    def lock(self) -> Path:
        """Held by the supervisor as long as it lives; the kernel lets go of it when it dies."""
        return self.path / "lock"

    @property
    def layout(self) -> Path:
        """Number of brokers, ports, cluster id: what stays over down and up."""
        return self.path / "runtime.json"

    @property
    def state(self) -> Path:
        """Who runs now; gone after an orderly stop."""
        return self.path / "state.json"

    @property
    def failure(self) -> Path:
        """Why the last supervisor gave up; gone with the next start."""
        return self.path / "failure.json"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def supervisor_log(self) -> Path:
        return self.logs / "supervisor.log"

    @property
    def tracker(self) -> Path:
        """Spark's checkpoint: what is in it can be lost without harm."""
        return self.path / "tracker"

    @property
    def tracker_alive(self) -> Path:
        """Touched by the tracker as long as it keeps time."""
        return self.tracker / "alive"

    @property
    def tracker_log(self) -> Path:
        """What the tracker and its Spark print."""
        return self.logs / "tracker.log"

    def broker(self, node: int) -> Path:
        return self.path / f"broker-{node}"

    def data(self, node: int) -> Path:
        return self.broker(node) / "data"

    def properties(self, node: int) -> Path:
        return self.broker(node) / "server.properties"

    def broker_log(self, node: int) -> Path:
        """What Kafka logs."""
        return self.logs / f"broker-{node}.log"

    def broker_output(self, node: int) -> Path:
        """What the JVM itself prints."""
        return self.logs / f"broker-{node}.out"


def default_home() -> Path:
    """The runtime every process joins that names no directory."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base, "marq", "embedded")


def home(directory: str | os.PathLike[str] | None) -> RuntimeHome:
    """The home at `directory`, else the default one."""
    return RuntimeHome(Path(directory or default_home()).expanduser().absolute())


def make_private(directory: Path) -> None:
    """Make a directory that nobody else may look into: messages lie in it. One that was made when
    others still might is closed to them."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_others(directory)
    if directory.stat().st_mode & 0o077:
        directory.chmod(0o700)


def refuse_others(path: Path) -> None:
    """Believe nothing that belongs to someone else: a state says which processes to end, and which
    brokers to trust with messages."""
    try:
        owner = path.stat().st_uid
    except (FileNotFoundError, NotADirectoryError):
        return
    _refuse(path, owner)


def _refuse(path: Path, owner: int) -> None:
    mine = os.geteuid()
    if owner != mine:
        raise ConfigError(
            f"{path} belongs to {_user(owner)}, and this is {_user(mine)}: run marq as "
            f"{_user(owner)}, name another directory with --data (embedded:///dir), or make it "
            f"yours with chown -R."
        )


def _user(number: int) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(number).pw_name
    return f"user {number}"


def write(path: Path, value: object) -> None:
    """Replace a JSON file at once: a reader never sees half of it."""
    fresh = path.with_name(f"{UNFINISHED}{path.name}.{os.getpid()}")
    try:
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
        os.replace(fresh, path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def read(path: Path, kind: type[T]) -> T | None:
    """The file's value; None without a file. One of someone else's is refused."""
    try:
        with path.open("rb") as file:
            _refuse(path, os.fstat(file.fileno()).st_uid)
            return msgspec.json.decode(file.read(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise RuntimeFailed(f"cannot read {path} ({error}): repair or remove it.") from error


@contextlib.contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Turns a full disk or a missing right into a sentence."""
    try:
        yield
    except OSError as error:
        raise RuntimeFailed(
            f"cannot write to {directory} ({error.strerror or error}): "
            "free some space, mend its rights or name another directory with --data."
        ) from error
