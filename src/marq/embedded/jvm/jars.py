"""The jars of the broker and of Spark's Kafka connector, fetched once and checked on every use."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import filelock
import msgspec

from marq.embedded import progress
from marq.embedded.jvm import ivy, java
from marq.errors import RuntimeFailed

JarSet = Literal["kafka", "spark"]

LOCK_FILE = Path(__file__).with_name("jars.lock")
_ROOM = 200 * 1024 * 1024  # the jars, and the copy Ivy keeps of them


class LockedSet(msgspec.Struct, frozen=True):
    """What one set is made of: the modules asked for and every jar that came, with its sha256."""

    roots: tuple[ivy.Root, ...]
    jars: dict[str, str]


def locked(name: JarSet) -> LockedSet:
    """The lock's entry for one set."""
    return msgspec.json.decode(LOCK_FILE.read_bytes(), type=dict[str, LockedSet])[name]


def cache_directory() -> Path:
    """MARQ_CACHE_DIR, else marq's folder in the user's cache."""
    own = os.environ.get("MARQ_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(own or Path(base, "marq")).expanduser().absolute()


def resolve(name: JarSet = "kafka", cache: Path | None = None) -> tuple[Path, ...]:
    """The jars of a set, every byte checked; fetched first if one is missing or corrupt.

    With a whole cache nothing is written and no Java is started, so it works offline.
    """
    cache = cache or cache_directory()
    wanted = locked(name)
    folder = cache / "jars"
    with _using(cache):
        if _bad(folder, wanted.jars):
            with _alone(cache):
                bad = _bad(folder, wanted.jars)  # another process may have fetched them meanwhile
                if bad:
                    _Fetch(name, wanted, bad, cache).run()
    return tuple(folder / jar for jar in sorted(wanted.jars))


def _bad(folder: Path, jars: dict[str, str]) -> list[str]:
    return [jar for jar, digest in jars.items() if sha256(folder / jar) != digest]


def sha256(path: Path) -> str:
    """The file's digest in hex; of a missing one, nothing."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


@dataclass(frozen=True, slots=True)
class _Fetch:
    """The work of bringing the bad jars of one set, under the cache's lock."""

    name: JarSet
    wanted: LockedSet
    bad: list[str]
    cache: Path

    def run(self) -> None:
        _check_room(self.cache)
        program = java.find()
        some = f"{len(self.bad)} of {len(self.wanted.jars)}"
        title = f"fetching the {self.name} jars ({some}) into {self.cache}"
        with progress.bar(title, total=2 * len(self.wanted.jars)) as step:
            if self._once(program, step):
                # Ivy's cache may be poisoned: only a fetch without it can tell.
                shutil.rmtree(self.cache / "ivy", ignore_errors=True)
                self._refuse(self._once(program, step))

    def _once(self, program: Path, step: Callable[[], None]) -> list[str]:
        """Bring them; the names of those that came with wrong bytes, then nothing is kept."""
        with scratch(self.cache) as fresh:
            try:
                ivy.retrieve(program, self.wanted.roots, self.cache / "ivy", fresh, step)
            except ivy.IvyFailed as failure:
                raise self._explained(str(failure)) from None
            wrong = _bad(fresh, {jar: self.wanted.jars[jar] for jar in self.bad})
            if not wrong:
                _keep(fresh, self.bad, self.cache / "jars")
            return wrong

    def _refuse(self, wrong: list[str]) -> None:
        if wrong:
            raise RuntimeFailed(
                f"{wrong[0]} came with other bytes than marq's lock names and was refused: "
                "check what the registry, or a proxy before it, delivers."
            )

    def _explained(self, printed: str) -> Exception:
        if os.strerror(errno.ENOSPC) in printed:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.cache))
        log = self.cache / "ivy.log"
        log.write_text(printed)
        return RuntimeFailed(
            f"cannot fetch the {self.name} jars and {self.cache} does not hold them all: connect "
            f"to the network once, or copy a filled cache there (what Ivy said is in {log})."
        )


def _keep(fresh: Path, jars: list[str], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for jar in jars:
        # Renamed whole, never written in place: a reader finds the old file, the new one or none,
        # and a running JVM keeps the one it has opened.
        os.replace(fresh / jar, folder / jar)


@contextlib.contextmanager
def scratch(cache: Path) -> Iterator[Path]:
    """A folder beside the jars that is gone afterwards, with those a killed fetch left."""
    for left in cache.glob("fetch-*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="fetch-", dir=cache))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(cache / "lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        progress.say("another process is fetching the jars: waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _using(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RuntimeFailed(
            f"cannot keep the jars in {cache} ({error.strerror or error}): "
            "free some space, mend its rights or name another directory in MARQ_CACHE_DIR."
        ) from error


def _check_room(cache: Path) -> None:
    free = shutil.disk_usage(cache).free
    if free < _ROOM:
        raise OSError(errno.ENOSPC, f"{free >> 20} MB free, {_ROOM >> 20} MB needed", str(cache))
