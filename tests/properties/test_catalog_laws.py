"""Laws of the catalog's log: whoever reads it, from wherever it begins, knows what is in force."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from marq.core.catalog import definitions
from marq.core.catalog import snapshot as catalog_snapshot
from marq.core.catalog.definitions import Catalog, Kept, NotAnEntry, QueueDefinition
from marq.core.catalog.reader import CatalogReader, ReadRecord, trim_to
from tests.properties.effort import tried

T = TypeVar("T")
NAMES = ("a", "b")
FROM_THE_FUTURE = '{{"kind":"{}","name":"{}","version":{},"definition":{{"colour":"red"}}}}'


@dataclass
class Tracker:
    """Follows the log, and writes snapshots part by part: it may be held up before each."""

    name: str
    reader: CatalogReader
    left: list[bytes] = field(default_factory=list)

    def snapshot(self) -> None:
        if self.reader.is_whole:
            as_of = self.reader.next
            kept = self.reader.catalog.kept()
            # So small that most snapshots have several parts.
            most = catalog_snapshot._ROOM + 120
            self.left = catalog_snapshot.split(kept, as_of, f"{self.name}:{as_of}", most)


class World:
    """A log, two trackers that write snapshots and trim, clients that come and go."""

    def __init__(self) -> None:
        self.records: list[bytes | None] = []
        self.start = 0
        self.oracle = Catalog()
        """The fold of everything there ever was."""
        self.trackers = [Tracker(name, CatalogReader(0)) for name in "xy"]
        self.clients = [CatalogReader(0)]

    def append(self, value: bytes | None) -> None:
        self.records.append(value)
        try:
            entry = definitions.decode(value)
        except NotAnEntry:
            return
        if entry.kind != catalog_snapshot.KIND:
            self.oracle.apply(entry)

    def read(self, reader: CatalogReader) -> CatalogReader:
        """The reader at the log's end; a new one if the log was trimmed beyond it."""
        if reader.is_behind(self.start):
            reader = CatalogReader(self.start)
        for offset in range(max(reader.next, self.start), len(self.records)):
            try:
                reader.take(ReadRecord(offset, offset, self.records[offset]))
            except NotAnEntry:
                continue
        return reader

    def trim(self, tracker: Tracker, before: int) -> None:
        """What a tracker knows may be old: another one may have trimmed further."""
        self.start = max(self.start, trim_to(tracker.reader.snapshots, before))

    def knows_all(self, reader: CatalogReader) -> bool:
        return reader.is_whole and told(reader.catalog) == told(self.oracle)


def told(found: Catalog) -> dict[tuple[str, str], Kept]:
    return {(each.entry.kind, each.entry.name): each for each in found.kept()}


class Steps:
    """Draws what happens next."""

    def __init__(self, world: World, data: st.DataObject) -> None:
        self._world = world
        self._data = data

    def step(self) -> None:
        kinds = [self.change, self.change, self.foreign, self.tracker, self.tracker, self.client]
        self._pick(kinds)()

    def _pick(self, of: list[T]) -> T:
        return self._data.draw(st.sampled_from(of))

    def change(self) -> None:
        """By a client that may know less than the log says, and may lose."""
        client = self._pick(self._world.clients)
        if self._pick([True, True, False]):
            client = self._world.read(client)
        name = self._pick(list(NAMES))
        version = client.catalog.version("queue", name) + 1
        value = self._pick(
            [
                definitions.encode(client.catalog.change(name, QueueDefinition(lease_ms=version))),
                definitions.encode(client.catalog.change(name, None)),
                FROM_THE_FUTURE.format("queue", name, version).encode(),
                FROM_THE_FUTURE.format("lane-queue", name, version).encode(),
            ]
        )
        self._world.append(value)

    def foreign(self) -> None:
        self._world.append(self._pick([None, b"", b"{", b'{"kind":"snapshot"}', b"\xff"]))

    def tracker(self) -> None:
        tracker = self._pick(self._world.trackers)
        match self._pick(["read", "snapshot", "write", "write", "trim"]):
            case "read":
                tracker.reader = self._world.read(tracker.reader)
            case "snapshot":
                tracker.snapshot()
            case "write" if tracker.left:
                self._world.append(tracker.left.pop(0))
            case "trim":
                before = self._data.draw(st.integers(0, len(self._world.records) + 1))
                self._world.trim(tracker, before)

    def client(self) -> None:
        number = self._data.draw(st.integers(0, len(self._world.clients)))
        if number == len(self._world.clients):
            self._world.clients.append(self._world.read(CatalogReader(self._world.start)))
        else:
            self._world.clients[number] = self._world.read(self._world.clients[number])


@tried(3)
@given(st.data(), st.integers(1, 80))
def test_whoever_reads_the_log_to_its_end_knows_what_is_in_force(
    data: st.DataObject, steps: int
) -> None:
    world = World()
    does = Steps(world, data)

    for _ in range(steps):
        does.step()

        assert world.knows_all(world.read(CatalogReader(world.start)))
    for each in (*world.clients, *(tracker.reader for tracker in world.trackers)):
        assert world.knows_all(world.read(each))


@given(st.data(), st.integers(1, 40))
def test_a_reader_in_the_middle_of_the_log_never_takes_it_for_all_there_is(
    data: st.DataObject, steps: int
) -> None:
    world = World()
    does = Steps(world, data)
    for _ in range(steps):
        does.step()
    start = data.draw(st.integers(world.start, len(world.records)))

    world.start = start
    found = world.read(CatalogReader(start))

    assert world.knows_all(found) or not found.is_whole
