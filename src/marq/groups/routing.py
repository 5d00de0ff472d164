"""Which messages of a queue go to a group, where, and as what. Pure: whoever copies uses this."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from marq.core.fate import parking, redelivery
from marq.core.fate.redelivery import Context
from marq.core.markers.wire import WireWriter
from marq.core.messages import header
from marq.core.messages.header import Meta
from marq.core.messages.stored import Outgoing, Stored, is_void
from marq.groups import keys
from marq.groups.config import GroupConfig

LETTER_BYTES = 4_096
"""How much more a dead letter says than the message it was."""
_SENT = 8 << 1
"""The tag of the time a message was sent at, a number."""
_ORIGIN = 3 << 1 | 1
"""The tag of the place it was sent to, a text."""


def routed(
    stored: Stored, config: GroupConfig, topic: str, purged: Mapping[str, int]
) -> Outgoing | None:
    """The copy for the group's topic; None if the message is not for the group.

    Key, payload and the sender's headers stay as they are; marq's own header says where and when
    it was sent first, so that the copy has the same id.
    """
    if purged and is_void(stored, dict(purged)):
        return None
    key = key_of(stored, config)
    if key is None:
        return None
    if not stored.headers or stored.headers[0][0] != header.NAME:
        return _plain(stored, key, config, topic)
    partition = keys.partition_of(key, config.max_members)
    meta, headers = header.split(stored.headers)
    if is_copy(meta):
        return None
    copy = replace(
        meta,
        origin=meta.origin or stored.address,
        sent_ms=meta.sent_ms or stored.at_ms,
        due_ms=meta.due_at(stored.at_ms),
        expires_ms=meta.expires_at(stored.at_ms),
        delay_ms=0,
        ttl_ms=0,
    )
    return Outgoing(topic, partition, stored.key, stored.value, header.join(copy, headers))


def unread(stored: Stored, config: GroupConfig, topic: str) -> Outgoing:
    """The copy of a message whose headers nobody can make sense of: a plain one."""
    return _plain(stored, stored.key or b"", config, topic)


def size(record: Outgoing) -> int:
    """About how many bytes a record takes."""
    headers = sum(len(name) + len(value or b"") + 10 for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def too_large(stored: Stored, queue: str, topic: str, most: int) -> Outgoing | None:
    """The dead letter of a message that is too large for the group's topic: without its payload
    where it may have no more bytes than `most`."""
    reason = f"too large for {topic!r}: {stored.address} says it all, as long as it is there"
    if size(Outgoing(topic, 0, stored.key, stored.value, stored.headers)) > most - LETTER_BYTES:
        stored = replace(stored, key=None, value=None, headers=())
    return redelivery.buried(stored, Context(queue, None, 0, 0.0), reason, (), topic).record


def _plain(stored: Stored, key: bytes, config: GroupConfig, topic: str) -> Outgoing:
    partition = keys.partition_of(key, config.max_members)
    ours = (header.NAME, plain_header(stored.address, stored.at_ms))
    return Outgoing(topic, partition, stored.key, stored.value, (ours, *stored.headers))


def is_copy(meta: Meta) -> bool:
    """Whether it is not for groups: it came back to the queue because of the own receivers, by
    expiry, retry, giving back or redrive. A group has had the message it is a copy of."""
    return meta.copies > 0


def due_at(meta: Meta, at_ms: int) -> int:
    """When a message of a group, appended at `at_ms`, may be handed out; 0: at once.

    What waits keeps all behind it waiting. marq parks what is due later than this, so a header that
    says otherwise is a stranger's, and would stop its partition for good.
    """
    return min(meta.due_at(at_ms), at_ms + parking.STRAIGHT_MS)


def redriven(letter: Stored, config: GroupConfig, topic: str) -> Outgoing:
    """A dead letter of the group, for where it reads: its own topic; where that is the queue, for
    all who read it."""
    key = key_of(letter, config)
    place = keys.partition_of(letter.key or b"" if key is None else key, config.max_members)
    return redelivery.redriven(letter, place, topic)


def plain_header(origin: str, sent_ms: int) -> bytes:
    """The header of a copy of a plain message: what `header.encode` makes of it, in a third of the
    time, for most messages are plain."""
    out = WireWriter(bytes((header.VERSION,)))
    out.numbers((_SENT, sent_ms))
    out.number(_ORIGIN)
    out.text(origin)
    return out.bytes()


def key_of(stored: Stored, config: GroupConfig) -> bytes | None:
    """What decides about the partition: the key; with filters, tokens of the subject."""
    if not config.partitioning_filters:
        return stored.key or b""
    subject = dict(stored.headers).get(keys.SUBJECT)
    if subject is None:
        return None
    return keys.subject_key(subject.decode("utf-8", "replace"), config.partitioning_filters)


def says_more(first: tuple[str, bytes | None]) -> bool:
    """Whether a message whose first header this is may be a copy, have to wait, or have expired.

    Decoding costs as much as all the rest of handing a message out. The numbers of marq's header
    are in rising order of their tags, and `sent` comes after copies, due and expiry: where it is
    the first, there are none.
    """
    name, value = first
    return name == header.NAME and value is not None and len(value) > 1 and value[1] != _SENT


def left_to_copy(offset: int, copied: int) -> bool:
    """Whether a source record is still to be copied: `copied` is what the last transaction of its
    source partition committed, together with the copies. Whatever is replayed lies below."""
    return offset >= copied
