"""What works for one claim: its hands, and the tenures they serve."""

from __future__ import annotations

from marq.groups.config import GroupConfig
from marq.kafka.groups.fetch import Fetcher
from marq.kafka.groups.hand import Hand
from marq.kafka.groups.note import Note
from marq.kafka.groups.owner import Owner
from marq.kafka.groups.plan import Handling
from marq.kafka.groups.tenure import Tenure


class Hands:
    """Hands of a claim: one for all partitions, or one for each."""

    def __init__(self, fetcher: Fetcher, config: GroupConfig, owner: Owner, plan: Handling) -> None:
        self._fetcher = fetcher
        self._config = config
        self._owner = owner
        self._plan = plan
        self._hands: dict[int, Hand] = {}
        fetcher.arrived = self._arrived
        owner.moved = self._moved

    def start(
        self, offsets: dict[int, int], fences: dict[int, int], notes: dict[int, Note]
    ) -> None:
        """Deliver partitions from these offsets on."""
        tenures = [
            Tenure(self._owner, number, fences[number], offset, notes[number])
            for number, offset in offsets.items()
        ]
        for tenure in tenures:
            self._owner.tenures[tenure.partition] = tenure
            self._hand(tenure.partition).serve(tenure)
        self._fetcher.start(tenures)

    def stop(self, partitions: frozenset[int]) -> None:
        """Hand out nothing more of these."""
        for number in partitions & self._owner.tenures.keys():
            self._owner.tenures[number].stop()
        self._fetcher.stop(partitions)

    def close(self) -> None:
        """Hand out nothing more; handlers that run are not waited for."""
        self._fetcher.stop(frozenset(range(self._config.max_members)))
        for hand in self._hands.values():
            hand.close()

    def _hand(self, partition: int) -> Hand:
        number = partition if self._config.pending_per == "partition" else 0
        if number not in self._hands:
            name = f"marq-group-hand-{number}"
            self._hands[number] = Hand(self._config, self._owner, self._plan, name)
        return self._hands[number]

    def _arrived(self, partition: int) -> None:
        self._hand(partition).wake()

    def _moved(self) -> None:
        for hand in tuple(self._hands.values()):
            if hand.idle:
                hand.wake()
