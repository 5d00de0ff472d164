"""librdkafka's message as a value."""

from __future__ import annotations

from typing import Any

from marq.core.stored import Stored


def stored(message: Any) -> Stored:
    """The message as a value."""
    return Stored(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
