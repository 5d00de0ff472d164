"""How much to fetch ahead: what is asked for now, and what is done in a second.

So slow handlers, however many, do not hoard messages an idle worker could run, and a fast consumer
does not wait.
"""

from __future__ import annotations

import time
from typing import Any

from marq.kafka.receiving.inbox import KafkaInbox

MOST = 40_000
MOST_BYTES = 20 * 1_048_576
BATCH = 10_000
"""Messages polled at once at most: a claim's size has a limit, and so has a hiccup."""
FAST = 10_000
"""Messages done in a second from which on a hand-over from thread to thread costs too much."""
_ENOUGH = ((0.01, 1_000), (0.1, 20), (2.0, 0))
"""After how many seconds so many messages tell how fast they are done."""
_SAMPLES = 8


class Prefetch:
    """Adapts the room of an inbox to how fast it is emptied."""

    def __init__(self) -> None:
        self._limit = 0
        self._most = MOST
        self._since = time.monotonic()
        self._done = 0

    def room(self, inbox: KafkaInbox, in_flight: int) -> int:
        """How many more messages to poll now."""
        self._adapt(inbox)
        wanted = min(max(self._limit, inbox.wanted, inbox.missed), self._most)
        return min(BATCH, wanted - inbox.waiting - in_flight)

    @property
    def is_fast(self) -> bool:
        """Whether messages are done so fast that whoever takes them fetches them himself."""
        return self._limit >= FAST

    def chunk(self, inbox: KafkaInbox, in_flight: int, waits: bool) -> int:
        """The same by whoever takes: a claim for a few would cost as much as one for thousands, so
        nothing until there is room for many, unless he waits for it."""
        room = self.room(inbox, in_flight)
        return room if waits or room >= min(BATCH, self._limit // 2, self._most // 2) else 0

    def polled(self, batch: list[Any]) -> None:
        """Learn how large messages are."""
        sample = batch[:: max(1, len(batch) // _SAMPLES)]
        average = sum(len(message) for message in sample) / len(sample)
        self._most = min(MOST, max(1, int(MOST_BYTES / (average + 1))))

    def _adapt(self, inbox: KafkaInbox) -> None:
        now = time.monotonic()
        elapsed = now - self._since
        if elapsed < _ENOUGH[0][0]:
            return
        total = inbox.settled
        done = total - self._done
        if not any(elapsed >= seconds and done >= enough for seconds, enough in _ENOUGH):
            return
        # Someone waited: more could have been done than was there.
        self._limit = int(done / elapsed * (2.0 if inbox.starved else 1.0))
        inbox.starved = False
        self._since, self._done = now, total
