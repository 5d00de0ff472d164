"""Topics that were deleted: the tracker forgets what it knew of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from marq.core.fold.counting import SourceCount

GONE_S = 600.0
"""How long a topic must be missing. By then every broker knows, and no claim of it that waited in a
worker can land any more: it would be taken for one of messages never claimed."""


MOST = 10_000
"""So many are forgotten at a time: who is gone is told to every batch."""


class Gone:
    """Who is missing, and since when."""

    def __init__(self) -> None:
        self._since: dict[bytes, float] = {}

    def look(
        self, sources: Iterable[SourceCount], there: Mapping[str, bytes | None], now: float
    ) -> frozenset[bytes]:
        """The ids of topics that are gone; `there` has the ids of those whose names were asked."""
        missing = {
            source.topic_id
            for source in sources
            if source.queue in there and there[source.queue] != source.topic_id
        }
        self._since = {topic_id: self._since.get(topic_id, now) for topic_id in missing}
        gone = sorted(t for t, since in self._since.items() if now >= since + GONE_S)
        return frozenset(gone[:MOST])
