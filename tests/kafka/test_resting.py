"""How the tracker rests between batches, on a real broker and without Spark: rests are long here,
so that whatever ends one is what the test did."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from marq import embedded
from marq.core import names
from marq.core.markers import codec
from marq.core.markers.marker import KeepAlive
from marq.kafka.backend import Kafka
from marq.kafka.client import config
from marq.kafka.tracker import ticks
from marq.kafka.tracker.act.report import Report
from marq.kafka.tracker.ticks import Ticks
from marq.spark import pace
from marq.spark.pulse import Pulse
from marq.spark.resting import Resting
from marq.stopping import Stopping
from tests.e2e.kafka_process import eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka]

PATIENCE_S = 30.0


class Rest:
    """A driver that has made a batch of all there was, and rests."""

    def __init__(self, kafka: embedded.Runtime, backend: Kafka) -> None:
        self.backend, self.stopping, self.pulse = backend, Stopping(), Pulse()
        partitions = range(backend.markers_partitions)
        self.places = [(topic, n) for topic in backend.space.hold_logs for n in partitions]
        settings = config.producer(kafka.bootstrap_servers, {}, 0)
        self.ticks = Ticks(settings, self.places, every_s=0.1)
        self.resting = Resting(self.ticks, self.pulse, self.stopping)
        self._thread: threading.Thread | None = None

    def begin(self, lapse_ms: int = 0) -> None:
        """Rest after a batch, which knows what lapses next."""
        assert eventually(lambda: self.ticks.told_ms > 0, PATIENCE_S)
        reports = self.reports(lapse_ms)
        self._thread = threading.Thread(target=self.resting.after, args=(reports,), daemon=True)
        self._thread.start()

    def reports(self, lapse_ms: int = 0) -> list[Report]:
        """Of a batch that has read all there is."""
        ends = {place: self.backend.admin.end(*place) for place in self.places}
        clock_ms = self.ticks.told_ms
        return [
            Report(*place, end, clock_ms, 0, 0, [], {}, next_lapse_ms=lapse_ms)
            for place, end in ends.items()
        ]

    def rests_on(self) -> bool:
        """Whether it rests longer than it would where something may be new."""
        return eventually(lambda: self.resting.clock_ms > 0, PATIENCE_S)

    def is_over(self) -> bool:
        assert self._thread is not None
        self._thread.join(PATIENCE_S)
        return not self._thread.is_alive()

    def end(self) -> None:
        self.stopping.set()
        self.ticks.stop()
        assert self._thread is None or self.is_over()


@pytest.fixture
def rest(
    kafka: embedded.Runtime, backend: Kafka, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rest]:
    monkeypatch.setattr(pace, "QUIET_S", 600.0)
    monkeypatch.setattr(ticks, "SILENT_S", PATIENCE_S)
    found = Rest(kafka, backend)
    found.ticks.start()
    yield found
    found.end()


def test_while_nothing_but_ticks_is_appended_it_rests_and_time_goes_on(rest: Rest) -> None:
    rest.begin()

    assert rest.rests_on()
    first_ms = rest.resting.clock_ms
    assert eventually(lambda: rest.resting.clock_ms > first_ms + 1_000, PATIENCE_S)
    assert rest.pulse.beats


@pytest.mark.parametrize("log", [names.MARKERS, names.DELAYED])
def test_a_record_ends_the_rest(rest: Rest, log: str) -> None:
    rest.begin()
    assert rest.rests_on()

    rest.backend.sender.append(log, 1, codec.encode(KeepAlive(7, (1,))), PATIENCE_S)

    assert rest.is_over()


def test_what_was_appended_before_the_rest_and_not_read_lets_it_not_begin(rest: Rest) -> None:
    assert eventually(lambda: rest.ticks.told_ms > 0, PATIENCE_S)
    reports = rest.reports()
    rest.backend.sender.append(names.MARKERS, 1, codec.encode(KeepAlive(7, (1,))), PATIENCE_S)

    rest.resting.after(reports)  # it would take ten minutes


def test_a_lapse_that_is_known_ends_the_rest_and_every_log_is_told(rest: Rest) -> None:
    assert eventually(lambda: rest.ticks.told_ms > 0, PATIENCE_S)
    lapse_ms = rest.ticks.told_ms + 2_000
    rest.begin(lapse_ms)

    assert rest.is_over()
    assert rest.ticks.told_ms >= lapse_ms


def test_it_does_not_rest_on_where_nobody_knows_what_was_appended(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.begin()
    assert rest.rests_on()

    monkeypatch.setattr(ticks, "SILENT_S", 0.0)  # as if none was heard of since

    assert rest.is_over()


def test_who_is_told_to_stop_rests_no_longer(rest: Rest) -> None:
    rest.begin()
    assert rest.rests_on()

    rest.stopping.set()
    rest.ticks.wake()

    assert rest.is_over()


def test_after_a_rest_that_was_cut_short_a_batch_is_due(rest: Rest) -> None:
    rest.begin()
    assert rest.rests_on()

    rest.backend.sender.append(names.MARKERS, 0, codec.encode(KeepAlive(7, (1,))), PATIENCE_S)

    assert rest.is_over()
    assert rest.pulse._due is not None
    assert rest.pulse._due <= time.monotonic()
