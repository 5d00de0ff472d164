"""librdkafka's message as a value."""

from __future__ import annotations

from operator import length_hint, methodcaller
from typing import Any

from confluent_kafka import Message

from marq.core.messages.header import Headers
from marq.core.messages.stored import Stored

UNREADABLE = "marq-unreadable-headers"
"""The one header of a message whose headers cannot be read; its copies and dead letters have it."""
_WHY = b"a header's name is not UTF-8"
_ask = methodcaller("headers")
"""Not `message.headers()`: a loop that CPython has made fast calls the binding without a look at
whether an error came beside its answer, and the list with the hole goes on to end the process."""


def headers(message: Any) -> Headers:
    """The message's headers, as they were sent; the only way to ask for them.

    librdkafka's binding cannot make a text of a name that is not UTF-8: it answers with a list with
    a hole in it and with an error, which is `SystemError` to whoever looks; whoever asks again is
    given the list alone. So the message is told to have one header only, which says what happened:
    it is delivered without the others rather than not at all.
    """
    try:
        return tuple(_ask(message) or ())
    except SystemError:
        message.set_headers([(UNREADABLE, _WHY)])
        return ((UNREADABLE, _WHY),)


def have_headers(messages: list[Any]) -> bool:
    """Whether one of these has any: as fast as asking them all can be."""
    left = iter(messages)
    try:
        return any(map(Message.headers, left))
    except SystemError:  # of the one before those that are left
        messages[-1 - length_hint(left)].set_headers([(UNREADABLE, _WHY)])
        return True


def stored(message: Any) -> Stored:
    """The message as a value."""
    return Stored(
        message.topic(),
        message.partition(),
        message.offset(),
        max(0, message.timestamp()[1]),
        message.key(),
        message.value(),
        headers(message),
    )
