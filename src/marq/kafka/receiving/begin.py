"""Begins messages that are handed out: their leases start. What is not wanted ends here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from marq.core.fate import settling
from marq.core.fate.expiry import AtHand, at_hand
from marq.errors import QueueError
from marq.kafka.client.answers import Answer
from marq.kafka.client.record import stored
from marq.kafka.leasing.desk import Desk
from marq.kafka.leasing.handout import Handout, Lease
from marq.kafka.leasing.home import Home
from marq.kafka.leasing.live import LiveClaim
from marq.kafka.receiving.delivery import KafkaDelivery
from marq.kafka.receiving.tickets import Terms, Ticket
from marq.message import Delivery

log = logging.getLogger("marq.kafka")

BEGIN_S = 5.0
"""How long a hand-out waits for the log to take the begun of a later attempt."""

Handouts = list[tuple[Handout, Ticket]]


def start(handout: Handout, terms: Terms) -> None:
    """Start the lease of its messages."""
    ahead_ms = settling.ahead_ms(terms.lease_ms, terms.kept_alive)
    handout.wanted = terms.wanted
    lease = Lease(terms.lease_ms, ahead_ms, terms.kept_alive)
    handout.start(lease, terms.now_ms + terms.lease_ms - ahead_ms)


def begin(home: Home, ticket: Ticket, terms: Terms) -> Handouts:
    """The ticket's handout; none if it is not to be handed out."""
    try:
        return _begin(home, ticket, terms)
    except Exception:
        _not_handed_out(home, ticket.live)
        return []


def _begin(home: Home, ticket: Ticket, terms: Terms) -> Handouts:
    live = ticket.live
    lapse_ms = live.lapse_ms if ticket.begin_by_ms is None else ticket.begin_by_ms
    if lapse_ms <= terms.now_ms:
        live.drop(1)
        return []  # the process slept, or the wait was too long: it comes back by itself
    if not _is_wanted(home, live, ticket.number, ticket.message, terms):
        return []
    handout = Handout(home, live, 1 << ticket.number, 1, ticket.attempt)
    handout.begin_by_ms = ticket.begin_by_ms
    if ticket.attempt > 1 or ticket.copied:
        handout.begin = Answer(live.desk.waiting)
    start(handout, terms)
    return [(handout, ticket)]


def deliveries(handouts: Handouts, flush: Callable[[Desk], None]) -> list[Delivery[Any]]:
    """The deliveries whose begun the log took in time; a first delivery does not wait for it, so
    that at most one delivery of a message can go uncounted. A copy is no first delivery, whatever
    its attempt: a message that kills its process at once would never be counted otherwise."""
    found: list[Delivery[Any]] = []
    for desk in {handout.desk for handout, _ in handouts if handout.begin is not None}:
        flush(desk)  # someone waits: nothing is gained by gathering more
    for handout, ticket in handouts:
        try:
            if handout.begin is not None:
                handout.begin.result(BEGIN_S)
        except (QueueError, TimeoutError):
            handout.let_go()  # not beaten, or it would be kept from everyone
            continue
        found.append(KafkaDelivery(handout, ticket.number, ticket.message))
    return found


def is_wanted(home: Home, live: LiveClaim, index: int, message: Any, terms: Terms) -> bool:
    """Whether it is still to be handed out; purged and expired ones end here."""
    try:
        return _is_wanted(home, live, index, message, terms)
    except Exception:
        _not_handed_out(home, live)
        return False


def _is_wanted(home: Home, live: LiveClaim, index: int, message: Any, terms: Terms) -> bool:
    match at_hand(stored(message), terms.now_ms, terms.definition):
        case AtHand.WANTED:
            return True
        case AtHand.ENDED:
            Handout.aside(home, live).end(index)
        case AtHand.BURIED:
            held = settling.outlived(live.claim.id, 1 << index)
            Handout.aside(home, live).hold(held, leaves=True)
    return False


def _not_handed_out(home: Home, live: LiveClaim) -> None:
    """For what was just raised. It is not beaten, or it would be kept from everyone: it comes
    back by itself."""
    log.exception("not handed out", extra={"queue": home.queue})
    live.drop(1)


def hold_until_due(home: Home, ticket: Ticket) -> None:
    """No room to wait in: the tracker brings it back when it is due."""
    after_ms = max(0, ticket.due_ms - home.now_ms())
    held = settling.deferred(ticket.live.claim.id, 1 << ticket.number, after_ms)
    Handout.aside(home, ticket.live).hold(held, leaves=True)
