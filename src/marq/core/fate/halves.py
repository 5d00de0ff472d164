"""What becomes of a half message: its final, a question to its producer group, or a dead letter.

Pure: its owner, the tracker's act and the memory broker write what stands here. The final that its
owner writes and the one that act writes are of one making, so two of a crash are one message twice.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from marq.core.fate.parking import AHEAD_MS, STRAIGHT_MS
from marq.core.fate.redelivery import (
    Context,
    Fate,
    Outcome,
    Pasts,
    buried,
)
from marq.core.fold.overdue import Due
from marq.core.fold.parked import Answers
from marq.core.markers.marker import Action, HeldParked
from marq.core.messages import header
from marq.core.messages.header import Headers, Meta, Past
from marq.core.messages.request import request
from marq.core.messages.sending import Message
from marq.core.messages.stored import Outgoing, Stored
from marq.core.messages.terms import HalfTerms

RARELY_MS = 300_000
"""What nobody answers is asked again ever more rarely, down to this."""
_NOBODY_S = Answers()
_SHORT = 128
"""A length below takes one byte."""
_BARE_FINAL = header.encode(Meta(origin="x"))[:-2]
"""A header that has nothing but an origin, up to where that begins."""


def half_meta(queue: str, half: HalfTerms, message: Message) -> Meta:
    """What the header of a half message says."""
    return Meta(
        message_id=message.message_id,
        queue=queue,
        delay_ms=message.delay_ms,
        due_ms=message.due_ms,
        ttl_ms=message.ttl_ms,
        half=half,
    )


def half_headers(queue: str, half: HalfTerms, message: Message) -> Headers:
    """All headers of a half message's record."""
    if message.is_bare:
        return ((header.NAME, _bare(queue, half)), *message.headers)
    return header.join(half_meta(queue, half, message), message.headers)


@lru_cache(maxsize=64)
def _bare(queue: str, half: HalfTerms) -> bytes:
    """The same for all of a group that say nothing else: to encode each costs more than to send."""
    return header.encode(half_meta(queue, half, Message(b"")))


def final_headers(
    address: str, queue: str, half: HalfTerms, message: Message, now_ms: int
) -> tuple[bool, Headers]:
    """Whether its owner parks the final, and all headers that it writes it with."""
    origin = address.encode()
    if message.is_bare and len(origin) < _SHORT:
        return False, (
            (header.NAME, _BARE_FINAL + bytes((len(origin),)) + origin),
            *message.headers,
        )
    said, is_parked = final(address, half_meta(queue, half, message), now_ms)
    return is_parked, header.join(said, message.headers)


def final(address: str, meta: Meta, now_ms: int) -> tuple[Meta, bool]:
    """What the header of a half message's final says, and whether it is parked first.

    It is sent as if it had been sent now: its delay and ttl count from here, and no purge before
    its commit is about it.
    """
    said = Meta(
        message_id=meta.message_id,
        delay_ms=meta.delay_ms,
        due_ms=meta.due_ms,
        ttl_ms=meta.ttl_ms,
        origin=address,
        unknown=meta.unknown,
    )
    wait_ms = meta.delay_ms or max(0, meta.due_ms - now_ms)
    if wait_ms < STRAIGHT_MS:
        return said, False
    return replace(said, queue=meta.queue, ahead_ms=AHEAD_MS), True


def decided(
    event: Due, stored: Stored, half: HalfTerms, partition: int, context: Context
) -> Outcome:
    """What becomes of a half message whose time has come; its final goes to that partition."""
    if event.action is Action.BURY:
        return _buried(event, stored, half, context)
    if event.action is Action.RELEASE and not is_gone(half, context):
        return _final(stored, partition, context)
    if event.action is Action.RELEASE:
        return buried(stored, context, "the queue was deleted before the half message was decided")
    if is_gone(half, context) or is_given_up(event, stored, half, context):
        # Not buried at once: an answer that comes before this is read counts, and none after.
        return Outcome(Fate.GIVEN_UP, hold=HeldParked(event.ref, Action.BURY))
    return _asked(event, stored, half, context)


def is_gone(half: HalfTerms, context: Context) -> bool:
    """Whether its queue was deleted; one made again under the name is another one."""
    return context.definition is None or context.made != half.made


def is_given_up(event: Due, stored: Stored, half: HalfTerms, context: Context) -> bool:
    """Whether enough was asked. Never where it could not even become a dead letter."""
    if context.definition is None or not context.definition.dead_letter:
        return False
    if half.max_checks and (event.half or _NOBODY_S).unknown >= half.max_checks:
        return True
    age_ms = context.clock_ms - stored.at_ms
    return half.give_up_after_ms > 0 and age_ms >= half.give_up_after_ms


def wait_ms(half: HalfTerms, unheard: int) -> int:
    """How long until it is asked about again, after so many requests that nobody answered."""
    most_ms = max(RARELY_MS, half.check_every_ms)
    return min(most_ms, half.check_every_ms << min(unheard, 20))


def unasked(event: Due, half: HalfTerms) -> Outcome:
    """It is asked about later: now that cannot be written."""
    unheard = event.tries - (event.half or _NOBODY_S).heard
    held = HeldParked(event.ref, Action.CHECK, wait_ms(half, max(0, unheard)))
    return Outcome(Fate.ASKED, hold=held)


def _asked(event: Due, stored: Stored, half: HalfTerms, context: Context) -> Outcome:
    later = unasked(event, half)
    if not context.checks:
        return later  # the group is not known: it may come back, and the half may be given up
    record = request(stored, event.ref, event.tries + 1, context.checks)
    return Outcome(Fate.ASKED, record, later.hold)


def _final(stored: Stored, partition: int, context: Context) -> Outcome:
    said, is_parked = final(stored.address, stored.meta(), context.clock_ms)
    headers = header.join(said, stored.user_headers())
    if is_parked:
        record = Outgoing(context.delayed, 0, stored.key, stored.value, headers)
        return Outcome(Fate.PARKED, record)
    record = Outgoing(context.queue, partition, stored.key, stored.value, headers)
    return Outcome(Fate.COPIED, record)


def _buried(event: Due, stored: Stored, half: HalfTerms, context: Context) -> Outcome:
    answers = event.half or _NOBODY_S
    if is_gone(half, context):
        reason = "the queue was deleted before the half message was decided"
    else:
        reason = (
            f"never decided: producer group {half.group!r} was asked {event.tries} times, and "
            f"{answers.unknown} times the answer was not known"
        )
    past: Pasts = tuple(
        Past(each.attempt, each.at_ms, half.group, each.reason) for each in answers.said
    )
    return buried(stored, context, reason, past)


# What users are told.


def of_another(group: str, queue: str) -> str:
    return f"producer group {group!r} belongs to queue {queue!r}: choose another name"


def still_open(group: str, number: int) -> str:
    return (
        f"producer group {group!r} has {number} half messages that are not decided: let its "
        f"members answer, or decide them by hand (marq half ls)"
    )


def deleted(group: str, queue: str) -> str:
    return (
        f"producer group {group!r} or its queue {queue!r} was deleted since the group was opened: "
        f"open it again"
    )
