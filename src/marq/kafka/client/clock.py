"""The broker's clock as this process knows it: never ahead of it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable

WINDOW_S = 60.0
FIRST_S = 5.0
"""How long whoever asks first waits for the first sample."""
FORKED_MS, CLOSED_MS = 1 << 63, 1 << 64
"""Later than the end of any lease: whose it is, is not known here, or nobody hears of it any more.
"""


# One that goes on while the machine is suspended: brokers' do, and Linux's monotonic one stands.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_s() -> float:
    """Seconds since some moment, those of a suspended machine among them."""
    return time.clock_gettime(_CLOCK)


class BrokerClock:
    """Estimates the append time a record would get now.

    A report that says "appended at t" is read after t: t minus the local time of reading is never
    more than the true difference, so the largest of the last minute is closest and still not
    ahead. Each partition has a leader of its own, so samples are kept by place; the lowest counts.
    A place of which nothing was heard for a minute is none: its last sample says how far clocks
    were apart then, and they drift. Where nothing is heard of any, what was heard last stands.
    """

    def __init__(self, elapsed_s: Callable[[], float] = elapsed_s) -> None:
        self._elapsed_s = elapsed_s
        self._sampling = threading.Lock()
        self._samples: dict[Hashable, deque[tuple[float, float]]] = {}
        self._ahead_ms = 0.0
        self._is_known = False
        self._sampled = threading.Event()
        self.recent_ms = 0
        """What `now_ms` said a moment ago: for what happens once a message."""

    def sample(self, place: Hashable, at_ms: int) -> None:
        """A record with this append time was reported just now, by whoever leads that place."""
        now = self._elapsed_s()
        difference = at_ms - now * 1_000
        with self._sampling:
            samples = self._samples.setdefault(place, deque())
            # Only what may still be a maximum is kept: each outlives the lower ones before it.
            while samples and samples[-1][1] <= difference:
                samples.pop()
            samples.append((now, difference))
            self._forget_before(now - WINDOW_S)
            self._ahead_ms = min(found[0][1] for found in self._samples.values())
        self._is_known = True
        self._sampled.set()

    def _forget_before(self, at: float) -> None:
        for place, samples in list(self._samples.items()):
            while samples and samples[0][0] < at:
                samples.popleft()
            if not samples:
                del self._samples[place]

    def forked(self) -> None:
        """In a child of this process every lease is over: whose it is, is known to the parent."""
        self._sampled = threading.Event()
        self._stand_at(FORKED_MS)

    def close(self) -> None:
        """Every lease is over here: nothing is written any more."""
        self._stand_at(CLOSED_MS)

    def _stand_at(self, ms: int) -> None:
        self._ahead_ms = float(ms)
        self.recent_ms = ms
        self._is_known = True
        self._sampled.set()

    def refused(self) -> None:
        """No sample will come as things are: nobody is to wait for one."""
        self._sampled.set()

    def tick(self) -> None:
        """Bring `recent_ms` up to date; called every tenth of a second at least."""
        self.recent_ms = self.known_ms() or 0

    def now_ms(self) -> int:
        """The append time of a record written now; at most that. 0: no broker has answered."""
        if not self._sampled.is_set():
            self._sampled.wait(FIRST_S)
        return self.known_ms() or 0

    def known_ms(self) -> int | None:
        """The same without waiting; None: no broker has answered yet."""
        if not self._is_known:
            return None
        return int(self._elapsed_s() * 1_000 + self._ahead_ms)
