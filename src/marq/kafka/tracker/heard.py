"""What the folds have told so far: of each source the last that was said of it."""

from __future__ import annotations

from collections.abc import Iterator

from marq.core import names
from marq.core.fold.counting import SourceCount
from marq.kafka.client.seeker import Place
from marq.kafka.tracker.act.report import Report

HeardSource = tuple[bytes, int, str]
"""Topic id, partition and subscription; "" for the queue's own receivers."""


class Heard:
    """Reports tell of the sources at work; what was told of the others before still holds."""

    def __init__(self) -> None:
        self._reports: dict[Place, Report] = {}
        self._sources: dict[Place, dict[HeardSource, SourceCount]] = {}
        """By hold-log partition: a source has all its markers in one."""

    def take(self, report: Report) -> set[str]:
        """Take in what came of a batch; the queues that it has news of."""
        place = (report.topic, report.partition)
        before = self._reports.get(place)
        news = _counted_otherwise(before.delayed if before else {}, report.delayed)
        news |= _counted_otherwise(before.halves if before else {}, report.halves)
        known = self._sources.get(place, {})
        now = {} if report.has_all else dict(known)
        for each in report.sources:
            source = (each.topic_id, each.partition, each.subscription)
            if known.get(source) != each:
                news.add(names.home(each.queue))
            now[source] = each
        for source in report.forgotten:
            now.pop(source, None)
        self._reports[place], self._sources[place] = report, now
        return news

    def reports(self) -> list[Report]:
        """The last of each hold-log partition."""
        return list(self._reports.values())

    def get(self, source: HeardSource) -> SourceCount | None:
        """What is known of a source."""
        found = (known.get(source) for known in list(self._sources.values()))
        return next((each for each in found if each is not None), None)

    def sources(self) -> Iterator[SourceCount]:
        """All that is known of any source."""
        for known in list(self._sources.values()):
            yield from list(known.values())


def _counted_otherwise(before: dict[str, int], now: dict[str, int]) -> set[str]:
    return {queue for queue, _ in before.items() ^ now.items()}
