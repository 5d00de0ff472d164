"""The tracker without Spark, on a real broker: the same folds, acts, ticks and housekeeping, one
batch when a test asks for it. What Spark would do, run things again and lose state, is asked for
too."""

from __future__ import annotations

import random
from collections.abc import Callable

from marq import embedded
from marq.core import names
from marq.core.fold import batch
from marq.core.fold.fold import fold
from marq.core.fold.state import State
from marq.core.names import DEFAULT
from marq.kafka.backend import Kafka
from marq.kafka.client import config
from marq.kafka.cluster.reader import hold_record
from marq.kafka.tracker.act.perform import Act
from marq.kafka.tracker.act.report import Report
from marq.kafka.tracker.act.tools import Tools
from marq.kafka.tracker.ticks import Ticks
from tests.kafka.house import House

Place = tuple[str, int]


class InProcessTracker:
    """One tracker; `restart` is another one, which has the log and nothing else."""

    def __init__(self, kafka: embedded.Runtime, backend: Kafka) -> None:
        self._backend = backend
        number = backend.markers_partitions
        self._places = [
            (topic, n) for topic in (names.MARKERS, names.DELAYED) for n in range(number)
        ]
        self._tools = Tools(kafka.bootstrap_servers, {}, DEFAULT)
        self._ticks = Ticks(config.producer(kafka.bootstrap_servers, {}, 0), self._places, 60)
        self.house = House(kafka, backend)
        self._states: dict[Place, State]
        self._caught_up: dict[Place, int]
        self.restart()

    def restart(self) -> None:
        """Lose all state: it is built anew from the log's start."""
        self._states = {}
        self._caught_up = {place: self._backend.admin.end(*place) for place in self._places}
        self.house.anew()

    def batch(self, place: Place) -> Report:
        """Fold what is new and act on it."""
        state = self._folded(place)
        caught_up = state.next_offset >= self._caught_up[place]
        state.restated_ms = 0  # every batch restates and trims
        found = batch.conclude(state, self._start, caught_up)
        acting = Act(place, found, self._tools, self._backend.catalog(), random.random)
        return acting.perform()

    def _folded(self, place: Place) -> State:
        topic, number = place
        if place not in self._states:
            start = self._backend.admin.starts(topic, number + 1)[number]
            self._states[place] = State(next_offset=start)
        state = self._states[place]
        self._start = state.next_offset
        end = self._backend.admin.end(*place)
        spans = {number: (state.next_offset, end)}
        fold(state, (hold_record(each) for each in self._backend.reader.read(topic, spans)))
        return state

    def run(self, until: Callable[[], bool] = lambda: True) -> bool:
        """Ticks, and a batch of every partition, until that is so; a bounded number of times."""
        for _ in range(200):
            self._ticks.tell((self._ticks.clock.known_ms() or 0) + 1)
            self.house.keeping.take([self.batch(place) for place in self._places])
            self.house.keep()
            if until():
                return True
        return False
