"""What becomes of a message whose time is up: a copy, a dead letter, or nothing.

Pure: the tracker's act and the memory broker write what stands here, together with the ends.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from marq.core import names
from marq.core.catalog.definitions import QueueDefinition
from marq.core.fate.backoff import backoff_ms
from marq.core.fate.parking import AHEAD_MS, is_parked
from marq.core.fold.overdue import Due, Event, Overdue
from marq.core.markers.marker import Action, HeldParked
from marq.core.markers.reason import cleaned
from marq.core.markers.wire import MOST
from marq.core.messages import header
from marq.core.messages.header import Headers, Meta, Past
from marq.core.messages.stored import Outgoing, Stored, is_void
from marq.core.subject import Subject

LEASE_EXPIRED = "lease expired"
NOBODY = ""
"""The reader of a letter that died before any reader had it."""
_DLQ = "__dlq.errors."
_DIGITS = 20
"""Of a number in a header: any producer may have written it, and Python refuses the longest."""


Pasts = tuple[Past, ...]


class Fate(StrEnum):
    """What became of it, for counting."""

    COPIED = "copied"
    PARKED = "parked"
    BURIED = "buried"
    DROPPED = "dropped"
    ASKED = "asked"
    """A producer group was asked about a half message."""
    GIVEN_UP = "given up"
    """Nobody decided a half message; it is buried next."""


class Outcome(Struct, frozen=True, gc=False):
    """The fate, and the record to write for it; none if it is dropped."""

    fate: Fate
    record: Outgoing | None = None
    hold: HeldParked | None = None
    """What is written in the place of an end: it stays open."""


class Context(Struct, frozen=True, gc=False):
    """What is known beside the message itself."""

    queue: str
    definition: QueueDefinition | None
    """None: the queue was deleted."""
    clock_ms: int
    jitter: float
    delayed: str = names.DELAYED
    """Where messages are parked."""
    made: int = 0
    """The version that made the queue."""
    checks: str = ""
    """Where the half message's producer group is asked; empty: the queue has no such group."""

    @property
    def subject(self) -> Subject:
        return Subject(self.queue)


def resolve(event: Overdue, stored: Stored, context: Context) -> Outcome:
    """What becomes of a claimed message."""
    definition = context.definition
    reason = event.reason or (LEASE_EXPIRED if event.action is Action.EXPIRE else "")
    past = _past(event, reason)
    if definition is None:
        return buried(stored, context, "the queue was deleted", past)
    if is_void(stored, definition.purged):
        return Outcome(Fate.DROPPED)
    if event.action is Action.BURY:
        return buried(stored, context, reason, past)
    if event.attempt >= definition.max_attempts:
        spent = f"max attempts ({definition.max_attempts}) reached"
        return buried(stored, context, f"{spent}: {reason}" if reason else spent, past)
    return _again(event, stored, past, context)


def _again(event: Overdue, stored: Stored, past: Pasts, context: Context) -> Outcome:
    meta = stored.meta()
    due_ms = max(meta.due_at(stored.at_ms), event.deadline_ms + _wait_ms(event, meta, context))
    copy = replace(
        _kept(stored, context.queue),
        attempt=event.attempt + 1 if event.attempt else meta.attempt,
        copies=meta.copies + 1,
        expired=meta.expired + (event.action is Action.EXPIRE),
        due_ms=due_ms,
        suspect=event.kept_alive and event.attempt > 0 and event.action is Action.EXPIRE,
        history=header.remember(meta.history, *past),
    )
    return _copied(stored, copy, context)


def _wait_ms(event: Overdue, meta: Meta, context: Context) -> int:
    """What expires for the first time is due at the deadline; later it backs off, lest a message
    that no worker survives keeps them all busy. A retry says itself how long it waits."""
    if event.action is not Action.EXPIRE or not meta.expired or not context.definition:
        return 0
    first_ms, cap_ms = context.definition.backoff_ms
    return backoff_ms(first_ms, cap_ms, meta.expired, context.jitter)


def _copied(stored: Stored, meta: Meta, context: Context) -> Outcome:
    if is_parked(meta.due_ms - context.clock_ms):
        parked = replace(meta, ahead_ms=AHEAD_MS)
        return Outcome(Fate.PARKED, _record(context.delayed, 0, stored, parked))
    straight = replace(meta, queue="", ahead_ms=0)
    return Outcome(Fate.COPIED, _record(context.subject.copies, stored.partition, stored, straight))


def given_back(
    stored: Stored, queue: str, attempt: int = 1, due_ms: int = 0, past: Pasts = ()
) -> Outgoing:
    """The copy a worker writes of what it was handed and does not want: nothing is counted.

    Retries that stayed in the worker are not in the record: it says which attempt is next, when
    that is due, and what became of those before.
    """
    meta = stored.meta()
    copy = replace(
        _kept(stored, queue),
        queue=meta.queue,
        attempt=max(attempt, meta.attempt),
        due_ms=max(due_ms, meta.due_at(stored.at_ms)),
        copies=meta.copies + 1,
        history=header.remember(meta.history, *past),
    )
    return _record(stored.topic, stored.partition, stored, copy)


def release(event: Due, stored: Stored, partition: int, context: Context) -> Outcome:
    """What becomes of a parked message whose time has come."""
    meta = stored.meta()
    if context.definition is None:
        return buried(stored, context, "the queue was deleted before the message was due")
    if is_void(stored, context.definition.purged):
        return Outcome(Fate.DROPPED)
    copy = replace(
        _kept(stored, context.queue),
        queue="",
        due_ms=meta.due_at(stored.at_ms),
        ahead_ms=0,
        copies=meta.copies,
    )
    return Outcome(Fate.COPIED, _record(context.subject.copies, partition, stored, copy))


def buried(
    stored: Stored, context: Context, reason: str, past: Pasts = (), reader: str | None = None
) -> Outcome:
    """The message as a dead letter, with its history; dropped where the queue wants none.

    `reader`: in whose hands it died, where that was an ordered group.
    """
    definition = context.definition
    if definition is not None and not definition.dead_letter:
        return Outcome(Fate.DROPPED)
    meta = stored.meta()
    history = header.remember(meta.history, *past)
    letter = replace(
        _kept(stored, context.queue),
        due_ms=0,
        expires_ms=0,
        suspect=False,
        history=history,
    )
    attempts = past[-1].attempt if past else meta.attempt - 1
    errors = _errors(stored, reader or _reader(stored, context.queue), attempts, reason)
    headers = header.join(letter, (*_without_errors(stored.user_headers()), *errors))
    topic = context.subject.letters
    return Outcome(Fate.BURIED, Outgoing(topic, 0, stored.key, stored.value, headers))


def unread(stored: Stored, queue: str, reason: str) -> Outgoing:
    """A dead letter with payload, key and headers as they are, for a message that cannot be worked
    out: nothing in it is looked at."""
    errors = _errors(stored, queue, 0, reason)
    topic = Subject(queue).letters
    return Outgoing(topic, 0, stored.key, stored.value, (*stored.headers, *errors))


def gone(event: Event, context: Context) -> Outcome:
    """A dead letter for a message whose payload can no longer be read."""
    reason = "the payload is gone: the record or its topic was deleted before it was acked"
    match event:
        case Overdue():
            place = (event.source.queue, event.source.partition, event.offset)
            return buried(_empty(*place, context), context, reason, _past(event, reason))
        case Due():
            return buried(_empty(context.delayed, 0, event.ref.offset, context), context, reason)


def _empty(topic: str, partition: int, offset: int, context: Context) -> Stored:
    return Stored(topic, partition, offset, context.clock_ms, None, None, ())


def cut(letter: Outgoing) -> Outgoing:
    """The dead letter without its history: the smallest one that keeps the payload."""
    meta, headers = header.split(letter.headers)
    return Outgoing(
        letter.topic,
        letter.partition,
        letter.key,
        letter.value,
        header.join(replace(meta, history=()), headers),
    )


def redriven(letter: Stored, partition: int, topic: str = "") -> Outgoing:
    """The dead letter as a message sent anew: only its id and history are kept.

    Not its origin or time: else an earlier purge or the queue's ttl would void it again. To its
    queue it goes as a copy, for the own receivers alone: the queue's other readers had it when it
    was sent. Unless no reader ever had it, or its reader has no other place to read it from.
    """
    home = home_of(letter)
    meta = Meta(
        message_id=letter.message_id(),
        history=letter.meta().history,
        unknown=letter.meta().unknown,
        copies=1 if reader_of(letter) == home else 0,
    )
    headers = header.join(meta, _without_errors(letter.user_headers()))
    return Outgoing(
        topic or Subject(letter.topic).redriven, partition, letter.key, letter.value, headers
    )


def home_of(letter: Stored) -> str:
    """The queue a dead letter belongs to: its topic says so, for any producer may have written its
    headers."""
    return Subject(letter.topic).queue


def reader_of(letter: Stored) -> str:
    """In whose hands it died: its queue's own receivers', an ordered group's by the name of the
    group's topic, or nobody's."""
    home = home_of(letter)
    value = dict(letter.headers).get(f"{_DLQ}group")
    said = home if value is None else value.decode("utf-8", "replace")
    return said if said == NOBODY or said.startswith(f"{home}.group.") else home


def reason_of(letter: Stored) -> str:
    """Why it is a dead letter."""
    value = dict(letter.headers).get(f"{_DLQ}message")
    return value.decode("utf-8", "replace") if value else ""


def attempts_of(letter: Stored) -> int:
    """How often it was delivered before it died."""
    value = dict(letter.headers).get(f"{_DLQ}delivery.count") or b""
    return min(int(value), MOST) if value.isdigit() and len(value) <= _DIGITS else 0


def _past(event: Overdue, reason: str) -> Pasts:
    """The attempts that failed under this claim, the last one last; none if it was only fetched.

    A retry is there already, with the time it was asked for.
    """
    (claim, _), *_ = event.names
    worker = f"{claim.worker:016x}"
    found = [Past(each.attempt, each.at_ms, worker, each.reason) for each in event.failed]
    if event.attempt and (not found or found[-1].attempt != event.attempt):
        found.append(Past(event.attempt, event.deadline_ms, worker, reason))
    return tuple(found)


def _kept(stored: Stored, queue: str) -> Meta:
    """What every copy keeps: who it is, where it came from, when it was sent and expires."""
    meta = stored.meta()
    return replace(
        meta,
        queue=queue,
        origin=meta.origin or stored.address,
        sent_ms=meta.sent_ms or stored.at_ms,
        expires_ms=meta.expires_at(stored.at_ms),
        ttl_ms=0,
        delay_ms=0,
        half=None,
    )


def _record(topic: str, partition: int, stored: Stored, meta: Meta) -> Outgoing:
    headers = header.join(meta, stored.user_headers())
    return Outgoing(topic, partition, stored.key, stored.value, headers)


def _reader(stored: Stored, queue: str) -> str:
    """Whoever has a message of a queue's topic are its own receivers; what is parked was with them
    only if it is a copy."""
    return NOBODY if names.is_delayed(stored.topic) and not stored.meta().copies else queue


def _errors(stored: Stored, reader: str, attempts: int, reason: str) -> Headers:
    said = {
        "topic": stored.topic,
        "partition": str(stored.partition),
        "offset": str(stored.offset),
        "group": reader,
        "delivery.count": str(attempts),
        "message": cleaned(reason),
    }
    return tuple((_DLQ + name, value.encode()) for name, value in said.items())


def _without_errors(headers: Headers) -> Headers:
    return tuple(pair for pair in headers if not pair[0].startswith(_DLQ))
