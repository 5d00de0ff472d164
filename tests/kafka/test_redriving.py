"""Redriving dead letters: two at once, and one who dies at each step; real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

import marq
from marq import embedded
from marq.core import names
from marq.core.fold.fold import GRACE_MS, Record, fold
from marq.core.fold.overdue import Overdue, emit
from marq.core.markers.marker import Action, Claim, Tick
from marq.core.messages import header
from marq.core.messages.header import Meta
from marq.core.messages.stored import Outgoing
from marq.core.names import DEFAULT
from marq.embedded import tether
from marq.kafka.backend import Kafka
from marq.kafka.client.making import Consumer, take
from marq.kafka.client.record import stored
from marq.kafka.cluster import reader as cluster_reader
from marq.kafka.cluster.reader import hold_record
from marq.kafka.inspecting import dead_letters
from marq.kafka.tracker.act.tools import Tools
from tests.e2e.kafka_fixtures import Connect, NewQueue
from tests.e2e.kafka_process import ROOT

pytestmark = [pytest.mark.java, pytest.mark.kafka]

LETTERS = 200
PATIENCE_S = 60.0
Redriver = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def redriver(kafka: embedded.Runtime) -> Iterator[Redriver]:
    """Processes that redrive, as soon as they are told."""
    found: list[subprocess.Popen[str]] = []

    def start(queue: str, window: str = "", lease_ms: int = 30_000) -> subprocess.Popen[str]:
        module = [sys.executable, "-m", "tests.e2e.redriver"]
        about = [kafka.bootstrap_servers, queue, window, str(lease_ms)]
        process = subprocess.Popen(
            [sys.executable, tether.__file__, str(os.getpid()), *module, *about],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        found.append(process)
        return process

    yield start
    for each in found:
        each.kill()
        each.communicate()


@pytest.fixture
def tools(kafka: embedded.Runtime) -> Tools:
    return Tools(kafka.bootstrap_servers, {}, DEFAULT)


def looked(process: subprocess.Popen[str]) -> None:
    """Wait until it knows which letters there are."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def told(process: subprocess.Popen[str]) -> str:
    """Let it go on; the last it said."""
    return process.communicate("go\n", timeout=PATIENCE_S)[0].strip().split("\n")[-1]


def bury(queue: marq.Queue[object], number: int) -> list[str]:
    """Letters as any producer may write them; their ids."""
    payloads = [str(each) for each in range(number)]
    queue.dead_letters.send_many(payloads)
    return payloads


def sent_again(backend: Kafka, queue: str) -> Counter[str]:
    """What lies in the queue's topic, by payload."""
    partitions = backend.definition(queue).partitions
    spans = {number: (0, end) for number, end in enumerate(backend.admin.ends(queue, partitions))}
    return Counter(message.value().decode() for message in backend.reader.read(queue, spans))


def test_two_who_redrive_at_once_send_each_letter_once(
    backend: Kafka, new_queue: NewQueue, redriver: Redriver
) -> None:
    orders = new_queue()
    payloads = bury(orders, LETTERS)
    two = [redriver(orders.name) for _ in range(2)]
    for each in two:
        looked(each)
    for each in two:  # both know of all letters, and of nothing the other does
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()

    said = [each.communicate(timeout=PATIENCE_S)[0].split() for each in two]

    assert sum(int(count) for _, count in said) == LETTERS
    assert sent_again(backend, orders.name) == Counter(payloads)
    assert orders.dead_letters.list() == []


def test_redrive_and_discard_at_once_share_the_letters(
    backend: Kafka, connect: Connect, new_queue: NewQueue
) -> None:
    orders = new_queue()
    bury(orders, 30)
    other = connect().queue(orders.name).dead_letters
    discarded: list[int] = []

    def discard_all_meanwhile(letter: marq.DeadLetter) -> bool:
        if not discarded:
            discarded.append(other.discard(limit=10))
        return True

    redriven = orders.dead_letters.redrive(where=discard_all_meanwhile)

    assert (redriven, discarded) == (20, [10])
    assert sum(sent_again(backend, orders.name).values()) == 20


@pytest.mark.parametrize(
    ("window", "sent", "open_after"),
    [
        ("before-claim", False, False),
        ("claimed", False, True),
        ("won", False, True),
        ("sent", True, True),
        ("ended", True, False),
    ],
)
def test_a_redriver_that_dies_loses_no_letter(
    backend: Kafka,
    new_queue: NewQueue,
    redriver: Redriver,
    window: str,
    sent: bool,
    open_after: bool,
) -> None:
    orders = new_queue()
    payloads = bury(orders, 3)
    process = redriver(orders.name, window, 1_000)
    looked(process)

    assert told(process) == f"window {window}"

    assert process.returncode == -signal.SIGKILL
    assert sent_again(backend, orders.name) == (Counter(payloads) if sent else Counter())
    coming_back = lapsed(backend, orders.dead_letters.name)
    assert coming_back == (payloads if open_after else [])
    left = [letter.payload for letter in orders.dead_letters.list()]
    assert left == (payloads if window == "before-claim" else [])


def lapsed(backend: Kafka, letters: str) -> list[str]:
    """The payloads of what the tracker brings back when the leases are over: its fold, an hour
    later by the log's clock, and after the grace that follows such a jump."""
    number = names.markers_partition(letters, 0, backend.markers_partitions)
    state = backend.reader.folded_one(names.MARKERS, number)
    later_ms = state.clock_ms + 3_600_000
    for at_ms in range(later_ms, later_ms + GRACE_MS + 2_000, 1_000):
        fold(state, [Record(state.next_offset, at_ms, Tick())])
    topic_id = backend.admin.topic_id(letters)
    offsets = []
    for event in emit(state):
        if isinstance(event, Overdue) and event.source.topic_id == topic_id:
            assert (event.action, event.attempt) == (Action.EXPIRE, 0)
            offsets.append(event.offset)
    spans = {0: (0, backend.admin.end(letters, 0))}
    found = {m.offset(): stored(m) for m in backend.reader.read(letters, spans)}
    return sorted((found[at].value or b"").decode() for at in offsets)


def test_nothing_is_sent_when_claiming_took_half_the_lease(
    backend: Kafka, new_queue: NewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LEASE_MS", 0)
    orders = new_queue()
    bury(orders, 2)

    with pytest.raises(marq.NotConnected):
        orders.dead_letters.redrive()

    assert not sent_again(backend, orders.name)


def limit(kafka: embedded.Runtime, topic: str, size: int) -> None:
    """Let the topic take no larger batches."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_S)


@pytest.mark.parametrize(("size", "largest"), [(1_030_000, 2_000_000), (60_000, 50_000)])
def test_a_letter_that_is_too_large_keeps_no_other_from_being_redriven(
    kafka: embedded.Runtime, backend: Kafka, new_queue: NewQueue, size: int, largest: int
) -> None:
    """Too large for this client, which others' need not be; or for the topic, since someone altered
    it: then a broker refuses all that came in one batch with it."""
    orders = new_queue(partitions=1)
    letters = orders.dead_letters
    limit(kafka, orders.name, largest)
    other = Producer({"bootstrap.servers": kafka.bootstrap_servers, "message.max.bytes": 2_000_000})
    for payload in (b"a", b"x" * size, b"b"):
        other.produce(letters.name, payload)
    assert other.flush(PATIENCE_S) == 0

    with pytest.raises(marq.PayloadError, match="2 dead letters were redriven, 1 stay") as told:
        letters.redrive()

    assert f"{letters.name}:0:1" in str(told.value)
    assert sent_again(backend, orders.name) == {"a": 1, "b": 1}


def test_letters_that_were_buried_one_by_one_are_taken_by_few_claims(
    backend: Kafka, new_queue: NewQueue, tools: Tools
) -> None:
    orders = new_queue()
    letters = orders.dead_letters
    acting = tools.open(names.MARKERS, 0)
    for number in range(30):  # each of these transactions leaves a record of its own between them
        acting.write([Outgoing(letters.name, 0, None, str(number).encode(), ())])
    acting.close()

    kept = letters.redrive(where=lambda letter: letter.payload not in (b"7", b"8"))

    assert kept == 28
    assert claims_of(backend, letters.name) == 2  # none covers the letters that stay
    assert [letter.payload for letter in letters.list()] == [b"7", b"8"]
    assert letters.redrive() == 2
    assert sum(sent_again(backend, orders.name).values()) == 30


def claims_of(backend: Kafka, letters: str) -> int:
    """How many claims of these letters there are in the log."""
    topic_id = backend.admin.topic_id(letters)
    number = names.markers_partition(letters, 0, backend.markers_partitions)
    end = backend.admin.end(names.MARKERS, number)
    start = backend.admin.starts(names.MARKERS, number + 1)[number]
    bodies = map(hold_record, backend.reader.read(names.MARKERS, {number: (start, end)}))
    claims = [each.body for each in bodies if isinstance(each.body, Claim)]
    return sum(claim.source.topic_id == topic_id for claim in claims)


def test_redrive_tells_how_far_it_is_and_stops_when_asked(
    backend: Kafka, new_queue: NewQueue
) -> None:
    orders = new_queue()
    bury(orders, 250)
    told_of: list[int] = []

    class Stop:
        def is_set(self) -> bool:
            return bool(told_of) and told_of[-1] >= 200

    assert orders.dead_letters.redrive(progress=told_of.append, stop=Stop()) == 200
    assert told_of == [100, 200]
    assert orders.dead_letters.discard(progress=told_of.append) == 50
    assert sum(sent_again(backend, orders.name).values()) == 200


def test_a_letter_goes_to_its_topic_s_queue_whatever_its_header_says(
    backend: Kafka, new_queue: NewQueue
) -> None:
    orders, bills = new_queue(), new_queue()
    forged = header.join(Meta(queue=bills.name), ())
    letters = orders.dead_letters.name
    backend.sender.send(Outgoing(letters, 0, None, b"forged", forged)).result(PATIENCE_S)

    assert orders.dead_letters.redrive() == 1

    assert sent_again(backend, orders.name) == Counter(["forged"])
    assert not sent_again(backend, bills.name)


def test_a_look_at_a_few_letters_of_many_reads_few(
    new_queue: NewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = new_queue().dead_letters
    payloads = [b"x" * 1_000 + str(number).encode() for number in range(5_000)]
    letters.send_many(payloads)
    taken: list[int] = []

    def counted(consumer: Consumer, limit: int, wait_s: float) -> list[Any]:
        found = take(consumer, limit, wait_s)
        taken.append(sum(message.topic() == letters.name for message in found))
        return found

    monkeypatch.setattr(cluster_reader, "take", counted)

    assert [letter.payload for letter in letters.list(10)] == payloads[:10]
    assert letters.redrive(limit=20) == 20
    assert [letter.payload for letter in letters.list(3)] == payloads[20:23]
    assert 0 < sum(taken) < 6_000  # of three times 5,000


def test_messages_of_many_partitions_are_seen_oldest_first(new_queue: NewQueue) -> None:
    queue = new_queue(partitions=4)
    payloads = [str(number).encode() for number in range(40)]
    for at in range(0, 40, 4):
        queue.send_many(payloads[at : at + 4])

    backend = queue.dead_letters._backend
    seen = list(backend.peek(queue.name, 25))

    assert [each.at_ms for each in seen] == sorted(each.at_ms for each in seen)
    assert len(seen) == 25
    assert {each.value for each in backend.peek(queue.name, 100)} == set(payloads)
