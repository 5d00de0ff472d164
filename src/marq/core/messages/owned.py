"""What the owner of a half message knows of it: until when nobody is asked about it.

By the log's clock, and only as far as it was told: a sign of life that came when it was over
already keeps nobody from having been asked.
"""

from __future__ import annotations

from marq.core.markers.marker import ParkedRef


class Owned:
    """A half message that is open in its owner's hands."""

    __slots__ = ("_until_ms", "ref")

    def __init__(self, ref: ParkedRef, until_ms: int) -> None:
        self.ref = ref
        self._until_ms = until_ms

    def extended(self, at_ms: int, check_after_ms: int, latest_ms: int = 0) -> None:
        """The log took a sign of life then (at the latest then); void if it came too late, and so
        are all after it."""
        if max(at_ms, latest_ms) < self._until_ms:
            self._until_ms = max(self._until_ms, at_ms + check_after_ms)

    def lapsed(self, now_ms: int) -> bool:
        """Whether somebody may have been asked by now: then its final is for act to write."""
        return now_ms >= self._until_ms
