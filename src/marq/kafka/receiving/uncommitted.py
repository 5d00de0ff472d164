"""Claims between poll and commit: in the order polled, by partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from marq.kafka.leasing.live import LiveClaim


class Uncommitted:
    """What the pump has claimed and not yet committed, of the partitions that are ours."""

    def __init__(self) -> None:
        self._claims: dict[int, deque[LiveClaim]] = {}
        self._positions: dict[int, int] = {}
        """Where polling goes on."""
        self._asked: dict[int, int] = {}
        """Offsets whose commit is under way."""

    def __contains__(self, partition: int) -> bool:
        return partition in self._claims

    @property
    def partitions(self) -> list[int]:
        return list(self._claims)

    def messages(self) -> int:
        """Messages polled and not yet in the inbox."""
        return sum(live.left for claims in self._claims.values() for live in claims)

    def any(self, partitions: Iterable[int]) -> bool:
        return any(self._claims.get(number) for number in partitions)

    def assign(self, partition: int) -> None:
        self.drop([partition])
        self._claims[partition] = deque()

    def drop(self, partitions: Iterable[int]) -> None:
        """Forget what is not committed by now: it is not ours."""
        for number in partitions:
            for known in (self._claims, self._positions, self._asked):
                known.pop(number, None)

    def start(self, partition: int, first: int, end: int) -> int:
        """Where a claim from `first` to `end` begins: where the one before it ended."""
        start = min(first, self._positions.get(partition, first))
        self._positions[partition] = end
        return start

    def add(self, live: LiveClaim) -> None:
        self._claims[live.partition].append(live)

    def failed(self) -> Iterator[LiveClaim]:
        """The first claim of each partition that can never be written."""
        for claims in self._claims.values():
            yield from [live for live in claims if live.failed][:1]

    def void_from(self, failed: LiveClaim) -> None:
        """Forget a claim and all after it: they are polled again."""
        claims = self._claims[failed.partition]
        while claims.pop() is not failed:
            pass
        self._positions[failed.partition] = failed.start

    def ends(self, again: bool) -> dict[int, int]:
        """By partition, where the contiguous prefix of acknowledged claims ends.

        Without those whose commit is under way already, unless `again`.
        """
        found: dict[int, int] = {}
        for number, claims in self._claims.items():
            for live in claims:
                if live.failed or not live.acknowledged:
                    break
                if again or live.end > self._asked.get(number, -1):
                    found[number] = live.end
        return found

    def ask(self, ends: dict[int, int]) -> None:
        """These commits are under way."""
        self._asked.update(ends)

    def refused(self) -> None:
        """What was under way is to be committed again."""
        self._asked.clear()

    def committed(self, partition: int, offset: int) -> list[LiveClaim]:
        """Take out the claims that this commit covers."""
        claims, found = self._claims.get(partition, deque()), []
        while claims and claims[0].acknowledged and claims[0].end <= offset:
            found.append(claims.popleft())
        return found
