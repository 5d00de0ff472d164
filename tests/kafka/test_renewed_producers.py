"""The tracker's own producers on a real broker: one that failed for good is made anew."""

from __future__ import annotations

import pytest

from marq import embedded
from marq.core import names
from marq.core.names import DEFAULT
from marq.kafka.backend import Kafka
from marq.kafka.client import config
from marq.kafka.cluster.stats_log import Counts, StatsReader, StatsWriter
from marq.kafka.tracker.ticks import Ticks
from tests.e2e.kafka_process import eventually
from tests.fatal_errors import fail_for_good

pytestmark = [pytest.mark.java, pytest.mark.kafka]

QUEUE = "nobody-s"


def test_time_goes_on_after_a_producer_has_failed_for_good(
    kafka: embedded.Runtime, backend: Kafka
) -> None:
    places = [(names.MARKERS, number) for number in range(backend.markers_partitions)]
    ticks = Ticks(config.producer(kafka.bootstrap_servers, {}, 0), places, every_s=60)

    def told(at_ms: int) -> bool:
        ticks.tell(at_ms)
        return ticks.told_ms >= at_ms

    assert eventually(lambda: told(1))
    fail_for_good(ticks._producer._producer)
    later_ms = (ticks.clock.known_ms() or 0) + 1

    assert eventually(lambda: told(later_ms))


def counts(ready: int) -> Counts:
    return Counts(ready=ready)


def test_counts_and_signs_of_life_are_written_after_a_producer_has_failed_for_good(
    kafka: embedded.Runtime, backend: Kafka
) -> None:
    writer = StatsWriter(
        config.producer(kafka.bootstrap_servers, {}, 0),
        config.reader(kafka.bootstrap_servers, {}),
        DEFAULT.stats,
    )
    reader = StatsReader(config.reader(kafka.bootstrap_servers, {}), DEFAULT.stats, 10)

    others = set(reader.keys())  # not removed: they are other tests'

    def says(ready: int, at_ms: int) -> bool:
        writer.write({QUEUE: counts(ready)}, at_ms, dict.fromkeys({*others, QUEUE}, 1))
        found = reader.read(QUEUE, at_ms)
        return found is not None and found.ready == ready and reader.alive_ms == at_ms

    assert eventually(lambda: says(1, 100))
    fail_for_good(writer._producer._producer)

    assert eventually(lambda: says(2, 200))
    writer.write({}, 300, dict.fromkeys(others, 1))
    assert eventually(lambda: reader.read(QUEUE, 300) is None)
    reader.close()
