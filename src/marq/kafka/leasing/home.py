"""Where the messages of a handout came from: what settling one of them needs of an inbox."""

from __future__ import annotations

from typing import Any, Protocol

from marq.core.catalog.definitions import QueueDefinition
from marq.core.messages.stored import Outgoing
from marq.receipt import Receipt


class Home(Protocol):
    """An inbox, as its handouts see it."""

    queue: str
    closed: bool
    settled: int
    """Messages of it that were settled so far; not exact: two threads may count at once."""

    def definition(self) -> QueueDefinition: ...

    def now_ms(self) -> int: ...

    def random(self) -> float: ...

    def write(self, outgoing: Outgoing) -> Receipt[Any]:
        """Send a copy."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether no more should wait here for their time."""
        ...

    def hand_out_again(
        self, live: Any, index: int, message: Any, attempt: int, due_ms: int, begin_by_ms: int
    ) -> None:
        """Hand the message out again when it is due, if its lease begins by the other time."""
        ...
