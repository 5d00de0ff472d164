"""The stats topic, whoever wrote to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka import Producer

from marq import embedded
from marq.core import names
from marq.errors import ConfigError
from marq.kafka.backend import Kafka
from marq.kafka.client import config
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.stats_log import (
    AGAIN_S,
    AT_ONCE,
    FEATURES,
    Counts,
    StatsReader,
    StatsWriter,
)
from marq.message import Stats
from tests.e2e.kafka_fixtures import NewQueue, new_name
from tests.e2e.kafka_process import eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka]

SOME = Counts(1, 2, 3, 4, oldest_ms=5_000)
SOME_AT_10_S = Stats(1, 2, 3, 4, 5.0)


@pytest.fixture
def reader(kafka: embedded.Runtime, backend: Kafka) -> Iterator[StatsReader]:
    found = StatsReader(config.reader(kafka.bootstrap_servers, {}), names.STATS, 10.0)
    yield found
    found.close()


def by_a_tracker(
    kafka: embedded.Runtime, stats: dict[str, Counts], at_ms: int, queues: Iterable[str]
) -> None:
    """What one that has just started writes first."""
    servers = kafka.bootstrap_servers
    found = StatsWriter(config.producer(servers, {}, 0), config.reader(servers, {}), names.STATS)
    found.write(stats, at_ms, dict.fromkeys(queues, 1))
    assert found.flush(10)


def write(kafka: embedded.Runtime, *records: tuple[bytes, bytes | None]) -> None:
    producer = Producer(config.producer(kafka.bootstrap_servers, {}, 0))
    for key, value in records:
        producer.produce(names.STATS, value, key, partition=0)
    assert producer.flush(20) == 0


def test_a_tracker_that_starts_removes_what_belongs_to_no_queue(
    kafka: embedded.Runtime, reader: StatsReader
) -> None:
    deleted, there, uncounted = new_name(), new_name(), new_name()
    some = {deleted: SOME, there: SOME, uncounted: SOME}
    by_a_tracker(kafka, some, 1, some)
    write(kafka, (f"{deleted}/audit".encode(), b'{"more":1}'))
    assert eventually(lambda: f"{deleted}/audit" in reader.keys())  # noqa: SIM118

    by_a_tracker(kafka, {there: SOME}, 2, {there, uncounted})

    def told() -> set[str]:
        return set(reader.keys()) & {deleted, f"{deleted}/audit", there, uncounted}

    assert eventually(lambda: told() == {there, uncounted})


def test_records_of_another_release_are_read_and_those_that_are_none_ignored(
    kafka: embedded.Runtime, reader: StatsReader
) -> None:
    older, newer, wrong = (new_name().encode() for _ in range(3))
    deep = b"[" * 100_000

    write(
        kafka,
        (wrong, b"{}"), (wrong, b'{"ready":"many"}'),
        (older, b'{"ready":7}'),
        (newer, b'{"ready":7,"in_flight":0,"delayed":0,"dead":0,"oldest_age":1,"rate":2.5}'),
        (b"\xff\xfe", b"\xff"), (wrong + b"2", deep), (b"", b"no sign"), (b"", None),
        (b"", b'{"at_ms":12,"features":["fold","by-moon"],"more":{}}'),
    )  # fmt: skip

    assert reader.read(older.decode(), 10_000) == Stats(7, 0, 0, 0, 0.0)
    assert reader.read(newer.decode(), 10_000) == Stats(7, 0, 0, 0, 1.0)
    assert reader.read(wrong.decode(), 10_000) is None
    assert (reader.alive_ms, reader.features) == (12, frozenset({"fold", "by-moon"}))


def test_what_a_tracker_does_not_know_is_refused(
    kafka: embedded.Runtime, reader: StatsReader
) -> None:
    write(kafka, (b"", b'{"at_ms":12}'))
    with pytest.raises(ConfigError, match="this needs a newer tracker"):
        reader.require(FEATURES[0])

    by_a_tracker(kafka, {}, 13, reader.keys())
    assert eventually(lambda: reader.read("", 10_000) is None and reader.alive_ms == 13)
    reader.require(FEATURES[0])


def test_what_a_replaced_tracker_wrote_last_does_not_stay(
    kafka: embedded.Runtime, reader: StatsReader
) -> None:
    queue, now = new_name(), [0.0]
    servers = kafka.bootstrap_servers
    newest = StatsWriter(
        config.producer(servers, {}, 0),
        config.reader(servers, {}),
        names.STATS,
        now=lambda: now[0],
    )
    queues = {**dict.fromkeys(reader.keys(), 1), queue: 1}
    old = Counts(9, 9, 9, 9, oldest_ms=1_000)
    newest.write({queue: SOME}, 2, queues)
    assert newest.flush(10)
    by_a_tracker(kafka, {queue: old}, 1, queues)
    assert eventually(lambda: reader.read(queue, 10_000) == Stats(9, 9, 9, 9, 9.0))

    now[0] += AGAIN_S
    newest.write({queue: SOME}, 3, queues)

    assert eventually(lambda: reader.read(queue, 10_000) == SOME_AT_10_S)


def test_a_queue_that_was_made_again_inherits_no_counts(
    kafka: embedded.Runtime, reader: StatsReader
) -> None:
    queue = new_name()
    by_a_tracker(kafka, {queue: SOME}, 1, {*reader.keys(), queue})  # version 1 made it

    assert eventually(lambda: reader.read(queue, 10_000, made=1) == SOME_AT_10_S)
    assert reader.read(queue, 10_000, made=3) is None


def test_where_the_tracker_is_gone_counts_are_of_this_moment(
    kafka: embedded.Runtime, backend: Kafka, new_queue: NewQueue, reader: StatsReader
) -> None:
    queue = new_queue(partitions=1)
    by_a_tracker(kafka, {queue.name: SOME}, 1, {*reader.keys(), queue.name})
    queue.send(b"x")
    queue.send(b"later", delay="1h")

    found = queue.stats()

    assert (found.ready, found.delayed, found.dead) == (1, 1, 0)


def test_what_grows_old_is_not_written_again_and_much_is_written_in_turns(
    kafka: embedded.Runtime, reader: StatsReader
) -> None:
    servers, others = kafka.bootstrap_servers, reader.keys()
    writer = StatsWriter(config.producer(servers, {}, 0), config.reader(servers, {}), names.STATS)
    mine = [new_name() for _ in range(AT_ONCE + 10)]
    queues = dict.fromkeys((*others, *mine), 1)

    def written(at_ms: int, counts: dict[str, Counts]) -> int:
        """How many records a round writes, the sign of life aside."""
        assert writer.flush(10)
        (before,) = Admin(config.common(servers, {}), 10).ends(names.STATS, 1)
        writer.write(counts, at_ms, queues)
        assert writer.flush(10)
        (after,) = Admin(config.common(servers, {}), 10).ends(names.STATS, 1)
        return after - before - 1

    assert written(10_000, dict.fromkeys(mine, SOME)) == AT_ONCE
    assert written(20_000, dict.fromkeys(mine, SOME)) == 10
    assert written(30_000, dict.fromkeys(mine, SOME)) == 0

    def age() -> float:
        last = reader.read(mine[-1], 35_000)
        return last.oldest_age if last else 0.0

    assert eventually(lambda: age() == 30.0)
