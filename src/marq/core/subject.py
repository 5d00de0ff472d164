"""Whose a message is, and what follows from it: the one answer for all who ask.

Who asks: act, inboxes, counts, trimming, redriving and routing. A lane adds the record's key here,
which says whose queue it is.
"""

from __future__ import annotations

from msgspec import Struct

from marq.core import names


class Subject(Struct, frozen=True, gc=False):
    """Messages of one topic, and who receives them: the queue's own receivers, or a subscription.

    `Catalog.definition_of` says whose definition counts.
    """

    topic: str
    """Where they lie or were claimed: a queue's topic, or that of its dead letters."""
    subscription: str = ""
    """Empty: the queue's own receivers."""

    @property
    def queue(self) -> str:
        """The queue that all of it belongs to, by the topic's name: any producer may have written
        the headers."""
        return names.home(self.topic)

    @property
    def is_letters(self) -> bool:
        """Whether these are dead letters."""
        return names.is_dead_letters(self.topic)

    @property
    def copies(self) -> str:
        """The topic that copies and retries go to: where only the same reader takes them."""
        return f"{self.topic}.sub.{self.subscription}" if self.subscription else self.topic

    @property
    def letters(self) -> str:
        """The topic that its dead letters go to."""
        return names.dead_letters(self.copies)

    @property
    def redriven(self) -> str:
        """Of dead letters: the topic that they go back to when they are redriven."""
        return self.topic.removeprefix(names.dead_letters(""))

    def markers_partition(self, partition: int, markers_partitions: int) -> int:
        """The partition of the markers log that tells of this partition of the topic."""
        return names.markers_partition(self.topic, partition, markers_partitions)
