"""Taking messages out of turn, by offset: of all who claim one, the first in the log has it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice, pairwise

from marq.core.fold.fold import Record, fold
from marq.core.fold.state import State
from marq.core.markers import bits, claimed
from marq.core.markers.marker import Claim, ClaimId, Source

NEAR = 3
"""So many offsets between two letters are worth looking at: transactions leave one each."""


class Taking:
    """The fold of a markers partition, and what our claims have won there.

    A claim of offsets that someone claimed before wins none of those, whether they are still open
    or have ended. They are then open under it too, until it lapses: nothing may be said of them,
    for an end under any claim ends them all.
    """

    def __init__(self) -> None:
        self._state = State()
        self._asked: dict[ClaimId, frozenset[int]] = {}
        """What our claims have won; those not read yet are missing."""
        self._open: set[ClaimId] = set()

    @property
    def next_offset(self) -> int:
        """The record of the log to be read next."""
        return self._state.next_offset

    @property
    def settled(self) -> bool:
        """Whether all our claims were read."""
        return not self._open

    def ask(self, claim: ClaimId) -> None:
        """Tell, once it is read, what this claim has won."""
        self._open.add(claim)

    def won(self, claim: ClaimId) -> frozenset[int]:
        """The offsets that nobody had claimed before this claim; asked for once."""
        return self._asked.pop(claim)

    def read(self, records: Iterable[Record]) -> None:
        """Take in the next records of the log. A claim that is sent again changes nothing."""
        for record in records:
            body = record.body
            if isinstance(body, Claim) and body.id in self._open:
                self._open.discard(body.id)
                whole = bits.span(0, claimed.size(body.runs))
                offsets = (at for _, at in claimed.numbered(body.runs, whole))
                self._asked[body.id] = frozenset(self.free(body.source, offsets))
            fold(self._state, (record,))

    def free(self, source: Source, offsets: Iterable[int]) -> Iterator[int]:
        """Those of these offsets that nobody has ever claimed."""
        known = self._state.claimed.get(source[:4])
        return (at for at in offsets if known is None or at not in known.runs)

    def gaps(self, source: Source, offsets: list[int]) -> list[list[int]]:
        """What nobody has ever claimed between each of these offsets and the next; of what is more
        than `NEAR`, the first."""
        between = (range(low + 1, high) for low, high in pairwise(offsets))
        return [list(islice(self.free(source, gap), NEAR + 1)) for gap in between]


def lots(
    offsets: list[int], gaps: list[list[int]], letters: Collection[int]
) -> Iterator[list[int]]:
    """These offsets, apart where a letter that is not to be taken may lie in between: a claim
    covers all between its first and its last offset, and nobody would ever have that letter.

    `letters` are what of the gaps is a letter, where they are not too wide to have been looked at.
    """
    lot: list[int] = []
    for at, gap in zip(offsets, [[], *gaps], strict=False):
        if lot and (len(gap) > NEAR or any(each in letters for each in gap)):
            yield lot
            lot = []
        lot.append(at)
    if lot:
        yield lot
