"""Act on a real broker, among events that no rule was made for: each alone, the others in time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

import marq
from marq import embedded
from marq.core import names
from marq.core.catalog.definitions import Catalog
from marq.core.fold import batch
from marq.core.fold.batch import Batch
from marq.core.fold.overdue import Overdue
from marq.core.fold.state import OpenClaim, State
from marq.core.markers import bits, claimed, codec
from marq.core.markers.marker import (
    Action,
    Claim,
    ClaimId,
    EndedRuns,
    Marker,
    Restate,
    Source,
    Tick,
)
from marq.core.messages.stored import Outgoing
from marq.core.names import DEFAULT
from marq.errors import ConfigError, NotConnected, QueueError
from marq.kafka.backend import Kafka
from marq.kafka.client import config
from marq.kafka.client.seeker import Seeker, Stretch
from marq.kafka.client.transactions import Away, Transactions, Unsure
from marq.kafka.tracker.act import payloads, perform
from marq.kafka.tracker.act.perform import Act
from marq.kafka.tracker.act.report import Report
from marq.kafka.tracker.act.tools import Tools
from tests.e2e.kafka_fixtures import NewQueue, new_name
from tests.e2e.kafka_process import eventually
from tests.kafka.lifetimes import take

pytestmark = [pytest.mark.java, pytest.mark.kafka]


class Scene:
    """A queue with messages that somebody claimed and has no longer, and the act of its log."""

    def __init__(self, backend: Kafka, queue: marq.Queue[bytes], servers: str) -> None:
        self.queue, self.backend = queue, backend
        self.tools = Tools(servers, {}, DEFAULT)
        self.place = (
            names.MARKERS,
            names.markers_partition(queue.name, 0, backend.markers_partitions),
        )
        topic_id = backend.admin.topic_id(queue.name)
        assert topic_id is not None
        self.source = Source(topic_id, 0, queue.name, "", 0)
        self.worker = 0

    def write(self, *markers: Marker) -> None:
        heard: list[object] = []
        producer = self.backend.markers
        for marker in (*markers, Tick()):
            producer.write(self.place[1], marker, heard.append)
        assert eventually(lambda: len(heard) == len(markers) + 1)

    def claim(self, count: int, source: Source | None = None, start: int = 0) -> None:
        """A claim of so many messages by somebody who is gone at once."""
        self.worker += 1
        name = ClaimId(hash((self.queue.name, self.worker)) & (1 << 64) - 1, 1)
        self.write(Claim(name, source or self.source, start, ((start, count),), 0))

    def state(self) -> State:
        return self.backend.reader.folded_one(*self.place)

    def lapsed(self) -> Batch:
        """The batch in which all that is claimed of the queue is overdue."""
        state = self.state()
        made = batch.conclude(state, state.next_offset, caught_up=True)
        events = [
            Overdue(
                source=claim.source,
                offset=offset,
                names=((claim.id, index),),
                action=Action.EXPIRE,
                deadline_ms=state.clock_ms,
                ahead_ms=0,
                attempt=1,
                kept_alive=False,
                reason="",
            )
            for claim in state.claims.values()
            if claim.source.topic_id == self.source.topic_id
            for index, offset in claimed.numbered(claim.runs, claim.open)
        ]
        return replace(made, overdue=events, due=[], restate=b"", trim_to=0)

    def act(self, made: Batch, jitter: Callable[[], float] = lambda: 0.0) -> Report:
        catalog = self.backend.catalog()
        return Act(self.place, made, self.tools, catalog, jitter).perform()

    def letters(self) -> list[marq.DeadLetter]:
        return self.queue.dead_letters.list()

    def claims(self) -> list[OpenClaim]:
        """What is open of the queue; others share its hold log."""
        return [c for c in self.state().claims.values() if c.source == self.source]

    def open_offsets(self) -> list[int]:
        return sorted(index for claim in self.claims() for index in bits.indexes(claim.open))


@pytest.fixture
def scene(backend: Kafka, new_queue: NewQueue, kafka: embedded.Runtime) -> Scene:
    queue = new_queue(partitions=1)
    queue.pause()
    return Scene(backend, queue, kafka.bootstrap_servers)


def test_an_event_that_no_rule_works_out_is_buried_as_it_is_and_the_others_come_back(
    scene: Scene,
) -> None:
    for number in range(3):
        scene.queue.send(b"%d" % number, key="k", headers={"of": "the user"})
    scene.claim(3)
    chances = iter([0.0, None, 0.0])

    def jitter() -> float:
        chance = next(chances)
        if chance is None:
            raise ValueError("no chance")
        return chance

    report = scene.act(scene.lapsed(), jitter)

    (letter,) = scene.letters()
    assert (letter.payload, letter.key, letter.headers["of"]) == (b"1", b"k", b"the user")
    assert "could not work out" in letter.reason and "no chance" in letter.reason
    assert (report.fates, report.failed, report.put_off) == ({"copied": 2, "buried": 1}, 1, 0)
    assert scene.open_offsets() == []


def test_an_event_that_cannot_even_be_read_is_put_off_and_the_others_come_back(
    scene: Scene,
) -> None:
    for number in range(4):
        scene.queue.send(b"%d" % number)
    scene.claim(4)
    made = scene.lapsed()
    beyond = 1 << 64
    odd = [replace(each, offset=beyond) if each.offset == 2 else each for each in made.overdue]

    report = scene.act(replace(made, overdue=odd))

    assert (report.fates, report.failed, report.put_off) == ({"copied": 3}, 1, 1)
    assert scene.open_offsets() == [2]
    (again,) = [part for claim in scene.claims() for part in claim.parts]
    assert again.deadline_ms > report.clock_ms


def test_no_event_is_looked_for_for_long_and_what_fails_with_it_is_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perform, "PATIENCE_S", 0.0)
    for number in range(4):
        scene.queue.send(b"%d" % number)
    scene.claim(4)
    made = scene.lapsed()
    odd = [replace(each, offset=1 << 64) if each.offset == 2 else each for each in made.overdue]

    report = scene.act(replace(made, overdue=odd))

    assert report.put_off == report.failed == 4
    assert scene.open_offsets() == [0, 1, 2, 3]


@pytest.mark.parametrize("partition", [0, 7])
def test_a_claim_of_a_queue_that_never_was_ends_and_costs_no_refused_transaction(
    scene: Scene, partition: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[set[int]] = []
    write = Transactions.write

    def heard(self: Transactions, records: Sequence[Outgoing]) -> set[int]:
        written.append(write(self, records))
        return written[-1]

    monkeypatch.setattr(Transactions, "write", heard)
    never = Source(scene.source.topic_id, partition, new_name(), "", 0)
    scene.claim(5, never)

    report = scene.act(scene.lapsed())

    assert report.fates == {"dropped": 5}
    assert not any(written)


def test_claims_beyond_the_topic_end_in_letters_that_say_so(scene: Scene) -> None:
    scene.queue.send(b"x")
    scene.claim(1)
    scene.claim(2, scene.source._replace(partition=9))
    scene.claim(2, start=(1 << 63) - 3)

    report = scene.act(scene.lapsed())

    assert report.fates == {"copied": 1, "buried": 4}
    assert {"the payload is gone" in letter.reason for letter in scene.letters()} == {True}


def test_claims_beyond_the_topic_keep_nobody_from_looking_at_it(scene: Scene) -> None:
    scene.queue.send(b"x")
    scene.claim(2, scene.source._replace(partition=9))

    seen = scene.backend.peek(scene.queue.name, 9)
    counted = scene.backend.counted(scene.queue.name)

    assert [each.value for each in seen] == [b"x"]
    assert (counted.ready, counted.in_flight) == (1, 0)


def test_what_lies_behind_records_that_someone_deleted_comes_back(scene: Scene) -> None:
    for number in range(6):
        scene.queue.send(b"%d" % number)
    scene.claim(6)
    scene.backend.admin.trim({(scene.queue.name, 0): 4})

    report = scene.act(scene.lapsed())

    assert report.fates == {"copied": 2, "buried": 4}
    assert {"the payload is gone" in letter.reason for letter in scene.letters()} == {True}
    scene.queue.resume()
    got = take(scene.queue, 2)
    assert {each.payload for each in got} == {b"4", b"5"}


def test_what_cannot_be_read_yet_is_not_taken_for_gone(
    scene: Scene, kafka: embedded.Runtime
) -> None:
    """A leader chosen a moment ago shows less of its log than was read of it; so does a transaction
    that is undecided."""
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": scene.queue.name}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(3):
        producer.produce(scene.queue.name, b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    scene.claim(3)

    hidden = scene.act(scene.lapsed())
    producer.commit_transaction(30)
    shown = scene.act(scene.lapsed())

    assert (hidden.fates, hidden.put_off) == ({}, 3)
    assert shown.fates == {"copied": 3}


class Silent(Seeker):
    """Nobody answers for the partitions of one topic."""

    topic = ""
    asked = 0

    def read(self, spans: list[Stretch], undecided_s: float = 0.0) -> Iterator[Any]:
        theirs = [span for span in spans if span[0] == self.topic]
        yield from super().read([span for span in spans if span not in theirs], undecided_s)
        if theirs:
            self.asked += 1
            self._left = {(topic, number): end for topic, number, _, end in theirs}
            raise NotConnected("no broker answers the tracker's reads")


def test_a_partition_that_does_not_answer_is_waited_for_once_and_not_by_every_act(
    scene: Scene, kafka: embedded.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payloads, "GAP", 1)
    silent = Silent(config.reader(kafka.bootstrap_servers, {}))
    silent.topic, scene.tools.seeker = scene.queue.name, silent
    for number in range(4):
        scene.queue.send(b"%d" % number)
    scene.claim(4)
    made = scene.lapsed()

    reports = [scene.act(replace(made, overdue=made.overdue[at::2])) for at in (0, 1)]

    assert [report.put_off for report in reports] == [2, 2]
    assert silent.asked == 1
    assert scene.open_offsets() == [0, 1, 2, 3]


def test_messages_of_a_queue_and_of_the_one_before_it_are_each_acted_on(scene: Scene) -> None:
    for number in range(3):
        scene.queue.send(b"%d" % number)
    now, before = scene.source, scene.source._replace(topic_id=uuid4().bytes)
    scene.claim(3, before)
    scene.claim(3)
    made = scene.lapsed()
    scene.source = before
    older = scene.lapsed().overdue
    scene.source = now

    report = scene.act(replace(made, overdue=[*older, *made.overdue]))

    assert report.fates == {"buried": 3, "copied": 3}


class Denied(Tools):
    """Who may not look at one topic."""

    hidden = ""

    def topics(self, topics: Iterable[str]) -> dict[str, tuple[bytes, int] | QueueError | None]:
        refused = ConfigError("it takes DESCRIBE on the topic")
        found = super().topics(topics)
        return {topic: refused if topic == self.hidden else found[topic] for topic in found}


def test_a_topic_that_may_not_be_looked_at_costs_one_try_and_no_message(
    scene: Scene, kafka: embedded.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(Transactions, "close", lambda self: opened.append("closed"))
    tools = scene.tools = Denied(kafka.bootstrap_servers, {}, DEFAULT)
    for number in range(8):
        scene.queue.send(b"%d" % number)
    scene.claim(8)
    made = scene.lapsed()

    tools.hidden = scene.queue.name
    denied = scene.act(made)
    tools.hidden = ""
    allowed = scene.act(scene.lapsed())

    assert (denied.fates, denied.put_off, denied.failed) == ({}, 8, 0)
    assert allowed.fates == {"copied": 8}
    assert len(opened) == 2


class Leaderless(Tools):
    """Of whom nobody takes records for one topic."""

    topic_away = ""
    waited = 0

    def open(self, topic: str, partition: int) -> Transactions:
        found = super().open(topic, partition)
        write = found.write

        def wait(records: Sequence[Outgoing]) -> set[int]:
            away = {(each.topic, each.partition) for each in records} & {(self.topic_away, 0)}
            if away:
                self.waited += 1
                raise Away(away)
            return write(records)

        found.write = wait  # type: ignore[method-assign]
        return found


def test_letters_that_nobody_takes_are_put_off_and_the_others_come_back(
    scene: Scene, kafka: embedded.Runtime
) -> None:
    tools = scene.tools = Leaderless(kafka.bootstrap_servers, {}, DEFAULT)
    tools.topic_away = names.dead_letters(scene.queue.name)
    for number in range(8):
        scene.queue.send(b"%d" % number)
    scene.claim(8)
    made = scene.lapsed()
    dies = [replace(each, action=Action.BURY) if each.offset % 2 else each for each in made.overdue]

    reports = [scene.act(replace(made, overdue=some)) for some in (dies[:4], dies[4:])]

    assert [(each.fates, each.put_off) for each in reports] == [({"copied": 2}, 2)] * 2
    assert tools.waited == 1
    assert scene.open_offsets() == [1, 3, 5, 7]


def test_what_has_no_topic_to_go_to_waits_and_the_others_come_back(scene: Scene) -> None:
    scene.queue.send(b"x")
    scene.claim(1)
    made = scene.lapsed()
    scene.backend.admin.delete(names.dead_letters(scene.queue.name))
    assert eventually(
        lambda: scene.backend.admin.topic_id(names.dead_letters(scene.queue.name)) is None
    )

    # A catalog without the queue: its message is to become a dead letter.
    report = Act(scene.place, made, scene.tools, Catalog(), lambda: 0.0).perform()

    assert (report.fates, report.put_off) == ({}, 1)
    assert scene.open_offsets() == [0]


class Narrow(Tools):
    """Of whom a broker takes small restatements only."""

    most = 1_000
    refused = 0

    def open(self, topic: str, partition: int) -> Transactions:
        found = super().open(topic, partition)
        write = found.write

        def refuse(records: Sequence[Outgoing]) -> set[int]:
            large = {n for n, each in enumerate(records) if len(each.value or b"") > self.most}
            self.refused += bool(large)
            return large or write(records)

        found.write = refuse  # type: ignore[method-assign]
        return found


def ended(scene: Scene, runs: int) -> Batch:
    """A batch that restates so many runs of the queue."""
    made = scene.lapsed()
    said = EndedRuns(scene.source, tuple((10 * number, 5) for number in range(runs)))
    return replace(made, restate=codec.encode(Restate(made.end, (), (said,))), trim_to=made.end)


def test_a_restatement_that_is_refused_is_written_in_smaller_records(
    scene: Scene, kafka: embedded.Runtime
) -> None:
    tools = scene.tools = Narrow(kafka.bootstrap_servers, {}, DEFAULT)
    tools.most = 30_000

    report = scene.act(ended(scene, 20_000))

    assert tools.refused
    assert report.trim_to
    runs = scene.state().claimed[scene.source[:4]].runs
    assert sum(1 for _ in runs) == 20_000


def test_after_a_restatement_that_no_broker_takes_the_next_one_waits(
    scene: Scene, kafka: embedded.Runtime
) -> None:
    tools = scene.tools = Narrow(kafka.bootstrap_servers, {}, DEFAULT)
    tools.most = 100
    before = scene.state().restated_ms

    report = scene.act(ended(scene, 20_000))

    assert report.trim_to == 0
    assert scene.state().restated_ms > before
    assert scene.source[:4] not in scene.state().claimed


def test_a_restatement_that_cannot_be_worked_out_is_no_reason_for_time_to_stand_still(
    scene: Scene,
) -> None:
    made = replace(scene.lapsed(), restate=b"no marker")

    report = scene.act(replace(made, trim_to=made.end))

    assert (report.failed, report.trim_to) == (1, 0)


def test_a_log_that_takes_no_record_at_all_is_an_error(
    scene: Scene, kafka: embedded.Runtime
) -> None:
    scene.queue.send(b"x")
    scene.claim(1)
    made = scene.lapsed()
    tools = scene.tools = Narrow(kafka.bootstrap_servers, {}, DEFAULT)
    tools.most = 0

    with pytest.raises(Unsure, match="takes no record"):
        scene.act(made)


DEFAULT_LIMIT = 1_048_588
"""Bytes of a batch that a topic takes where nobody said otherwise."""


@pytest.mark.parametrize(
    ("payload", "fates"),
    [
        (Random(0).randbytes(DEFAULT_LIMIT - 75), {"buried": 1}),
        (b"x" * 5_000_000, {"copied": 1}),
    ],
    ids=["as large as a topic takes", "five times as large, compressed"],
)
def test_a_message_that_just_fitted_comes_back_or_is_a_dead_letter_with_all_of_it(
    scene: Scene, kafka: embedded.Runtime, payload: bytes, fates: dict[str, int]
) -> None:
    settings = {"message.max.bytes": 10_000_000, "compression.type": "gzip"}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
    producer.produce(scene.queue.name, payload, partition=0)
    assert producer.flush(30) == 0
    assert scene.backend.admin.end(scene.queue.name, 0) == 1
    scene.claim(1)

    report = scene.act(scene.lapsed())

    assert report.fates == fates
    assert [letter.raw == payload for letter in scene.letters()] == [True] * fates.get("buried", 0)
    assert scene.open_offsets() == []
