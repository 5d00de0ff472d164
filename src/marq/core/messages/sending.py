"""A message to be sent, from what the user gave: checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, TypedDict

from msgspec import Struct

from marq.core.duration import Duration, milliseconds, text
from marq.core.messages import payload
from marq.core.messages.header import NAME, Headers
from marq.errors import ConfigError

HeaderValues = Mapping[str, str | bytes] | Sequence[tuple[str, str | bytes]]
MAX_ID_CHARS = 256
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SendOptions(TypedDict, total=False):
    """What can be said about a message beside its payload."""

    key: str | bytes | None
    """Messages of one key go to one partition."""
    headers: HeaderValues | None
    """They stay with the message through every copy."""
    delay: Duration | None
    """Hand it out this long after the log took it, at the earliest."""
    at: datetime | None
    """Hand it out at this time, at the earliest; with a time zone."""
    ttl: Duration | None
    """It expires after this long; None: as the queue's messages do."""
    priority: int
    """Not available yet: 0."""
    message_id: str | None
    """An id of your own; None: the place where it was first written."""


class Message(Struct, frozen=True, gc=False):
    """A message to be sent, checked and encoded."""

    value: bytes
    key: bytes | None = None
    headers: Headers = ()
    message_id: str = ""
    delay_ms: int = 0
    due_ms: int = 0
    ttl_ms: int = 0

    @property
    def plain(self) -> bool:
        """Whether key and value are all there is to it."""
        return not self.headers and self.is_bare

    @property
    def is_bare(self) -> bool:
        """Whether marq has nothing to say of it beside the user's headers."""
        return not (self.message_id or self.delay_ms or self.due_ms or self.ttl_ms)


_PLAIN = SendOptions()


def message(value: Any, options: SendOptions = _PLAIN, max_delay_ms: int = 1 << 62) -> Message:
    """The message these options make of the payload."""
    data, content_type = payload.encode(value)
    typed: Headers = ((payload.CONTENT_TYPE, content_type),) if content_type else ()
    if not options:
        return Message(data, headers=typed)
    _refuse_unknown(options)
    delay_ms, due_ms = _when(options, max_delay_ms)
    return Message(
        value=data,
        key=_key(options.get("key")),
        headers=(*typed, *_headers(options.get("headers"))),
        message_id=_message_id(options.get("message_id")),
        delay_ms=delay_ms,
        due_ms=due_ms,
        ttl_ms=_ttl_ms(options.get("ttl")),
    )


def _refuse_unknown(options: SendOptions) -> None:
    for name in options.keys() - SendOptions.__annotations__.keys():
        close = get_close_matches(name, SendOptions.__annotations__, 1)
        hint = f"did you mean {close[0]!r}?" if close else "see Queue.send"
        raise ConfigError(f"a message has no option {name!r}: {hint}")
    if options.get("priority"):
        raise ConfigError("priority: the queue has one priority, 0")


def _key(key: str | bytes | None) -> bytes | None:
    match key:
        case None | bytes():
            return key
        case str():
            return _utf8(key, "key")
    raise ConfigError(f"key must be str or bytes, not {type(key).__name__}")


def _headers(headers: HeaderValues | None) -> Iterator[tuple[str, bytes]]:
    if not isinstance(headers, Mapping | Sequence | None):
        raise ConfigError(f"headers must be a dict or a list of pairs, not {headers!r}")
    for pair in headers.items() if isinstance(headers, Mapping) else headers or ():
        match pair:
            case (str(name), _) if name == NAME:
                raise ConfigError(f"the header {NAME!r} is marq's own: choose another name")
            case (str(name), str() | bytes() as value):
                _utf8(name, "a header's name")
                yield name, _utf8(value, f"header {name!r}") if isinstance(value, str) else value
            case _:
                raise ConfigError(f"headers are names with str or bytes, not {pair!r}")


def _utf8(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{name} must be text that has UTF-8, not {text!r}") from None


def _message_id(message_id: str | None) -> str:
    if message_id is None:
        return ""
    if not isinstance(message_id, str) or not 0 < len(message_id) <= MAX_ID_CHARS:
        raise ConfigError(
            f"message_id must be a text of 1 to {MAX_ID_CHARS} characters, not {message_id!r}"
        )
    _utf8(message_id, "message_id")
    return message_id


def _when(options: SendOptions, max_delay_ms: int) -> tuple[int, int]:
    """(delay, due): a delay counts from the append time, a due time is absolute."""
    delay, at = options.get("delay"), options.get("at")
    if delay is not None and at is not None:
        raise ConfigError("give delay or at, not both")
    if at is not None:
        return 0, _due_ms(at)
    delay_ms = 0 if delay is None else milliseconds(delay, "delay")
    refuse_too_long(delay_ms, max_delay_ms)
    return delay_ms, 0


def refuse_too_long(delay_ms: int, max_delay_ms: int) -> None:
    """For `at` too, once it is known what time it is."""
    if delay_ms > max_delay_ms:
        raise ConfigError(
            f"a message may be delayed by {text(max_delay_ms)} at most (the setting max_delay), "
            f"not by {text(delay_ms)}"
        )


def _due_ms(at: datetime) -> int:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise ConfigError(f"at must be a datetime with a time zone, not {at!r}")
    # Not by way of UTC's calendar, in which the first and last hours of others have no place; and
    # a part of a millisecond is waited for.
    return max(1, -((_EPOCH - at) // timedelta(milliseconds=1)))


def _ttl_ms(ttl: Duration | None) -> int:
    if ttl is None:
        return 0
    ttl_ms = milliseconds(ttl, "ttl")
    if not ttl_ms:
        raise ConfigError("ttl must be longer than 0: None means that the message never expires")
    return ttl_ms
