"""Settling otherwise than by ack: retry, extend, give back."""

from __future__ import annotations

from typing import Any

from marq.core.fate import redelivery, settling
from marq.core.messages.header import Past
from marq.kafka.client.record import stored
from marq.kafka.leasing.given_back import GivenBack
from marq.kafka.leasing.handout import Handout
from marq.message import Retry
from marq.receipt import Receipt


def retry(handout: Handout, index: int, message: Any, verdict: Retry) -> Receipt[None]:
    """Short retries stay in the inbox, held in case this process dies; long ones are the
    tracker's."""
    home, attempt = handout.home, handout.attempt
    definition, after_ms = home.definition(), verdict.after_ms
    if after_ms is None:
        after_ms = settling.backoff(attempt, definition, home.random())
    claim = handout.claim.claim.id
    if not settling.stays(after_ms, attempt, definition) or home.is_full or home.closed:
        held = settling.retried(claim, 1 << index, attempt, after_ms, verdict.reason, definition)
        return handout.hold(held, leaves=True)
    held = settling.kept(claim, 1 << index, after_ms, verdict.reason, definition)
    receipt, now_ms = handout.hold(held, leaves=False), home.now_ms()
    past = Past(attempt, now_ms, f"{claim.worker:016x}", verdict.reason)
    retried = handout.claim.retried
    retried[index] = (*retried.get(index, ()), past)
    handout.take_back()
    home.hand_out_again(
        handout.claim, index, message, attempt + 1, now_ms + after_ms, now_ms + held.after_ms
    )
    return receipt


def extend(handout: Handout, index: int, duration_ms: int) -> tuple[Handout, Receipt[None]]:
    """A handout of its own for the message, with a longer lease."""
    held = settling.extended(handout.claim.claim.id, 1 << index, duration_ms)
    own = handout.split(index, handout.home.now_ms() + duration_ms)
    return own, own.hold(held, leaves=False)


def give_back(handout: Handout, index: int, message: Any) -> Receipt[None]:
    """Let someone else have it; see `GivenBack`."""
    past = handout.claim.retried.get(index, ())
    copy = redelivery.given_back(stored(message), handout.home.queue, handout.attempt, past=past)
    return GivenBack(handout.home.write(copy), handout, index)
