"""Topics that were deleted: the tracker forgets what it knew of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from marq.core.fold.counting import SourceCount

GONE_S = 600.0
"""How long a topic must be missing. By then every broker knows, and no claim of it that waited in a
worker can land any more: it would be taken for one of messages never claimed."""


MOST = 10_000
"""So many are forgotten at a time: who is gone is told to every batch."""
AT_ONCE = 500
"""So many topics are asked for at a time."""


class Gone:
    """Who is missing, and since when."""

    def __init__(self) -> None:
        self._since: dict[bytes, float] = {}
        self._gone: set[bytes] = set()
        self._turn: list[str] = []

    def turn(self, sources: Iterable[SourceCount]) -> list[str]:
        """The topics whose turn it is to be asked for, of all that have sources."""
        if not self._turn:
            self._turn = list({source.queue for source in sources})
        asked, self._turn = self._turn[:AT_ONCE], self._turn[AT_ONCE:]
        return asked

    def look(
        self, sources: Collection[SourceCount], there: Mapping[str, bytes | None], now: float
    ) -> frozenset[bytes]:
        """The ids of topics that are gone; `there` has the ids of those whose names were asked."""
        missing = {
            source.topic_id
            for source in sources
            if there.get(source.queue, self._as_known(source)) != source.topic_id
        }
        self._since = {topic_id: self._since.get(topic_id, now) for topic_id in missing}
        # Of those asked for now: with many topics the first answer may be the only one as yet.
        self._gone = (self._gone & missing) | {
            source.topic_id
            for source in sources
            if source.queue in there and now >= self._since.get(source.topic_id, now) + GONE_S
        }
        return frozenset(sorted(self._gone)[:MOST])

    def _as_known(self, source: SourceCount) -> bytes | None:
        """What is known of a topic that was not asked for now: missing as before, or there."""
        return None if source.topic_id in self._since else source.topic_id
