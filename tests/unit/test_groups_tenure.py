"""What is put back while others are on their way out: nothing overtakes it, and nothing is said of
what comes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from marq.core.messages.stored import Outgoing
from marq.kafka.groups.delivery import KafkaGroupDelivery
from marq.kafka.groups.note import Note
from marq.kafka.groups.owner import Owner
from marq.kafka.groups.tenure import Tenure


class Message:
    """A record of the group's partition, or the mark of where it ends."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


class Nobody:
    """An owner that commits nothing."""

    ack_wait_s = 5.0

    def dirty(self) -> None:
        pass

    def moved(self) -> None:
        pass

    def letter(self, delivery: KafkaGroupDelivery, reason: str) -> Outgoing:
        return Outgoing("dlq.orders", 0, None, reason.encode(), ())


@pytest.fixture
def tenure() -> Tenure:
    """A partition whose messages 0 to 4 are there."""
    found = Tenure(cast(Owner, Nobody()), 0, 1, 0, Note())
    found.inbox.extend(Message(offset) for offset in range(5))
    return found


def handed(tenure: Tenure) -> KafkaGroupDelivery:
    delivery = tenure.begin(tenure.take(), 1)
    assert delivery is not None
    return delivery


def rest(tenure: Tenure) -> list[int]:
    return [message.offset() for message in tenure.inbox]


@pytest.mark.parametrize(
    "fate",
    [
        lambda tenure, message: tenure.begin(message, 1),
        lambda tenure, message: tenure.skip(message, None),
        lambda tenure, message: tenure.wait(message, 0.0),
        lambda tenure, message: tenure.reached(message),
    ],
    ids=["handed-out", "skipped", "not-due", "end"],
)
def test_what_was_taken_does_not_overtake_what_is_put_back(
    tenure: Tenure, fate: Callable[[Tenure, Any], object]
) -> None:
    first, _ = handed(tenure), handed(tenure)
    taken = tenure.take()
    first.nak("1m")
    again_s = tenure.not_before_s

    assert fate(tenure, taken) is None

    assert rest(tenure) == [0, 1, 2, 3, 4]
    assert (tenure.watermark, tenure.not_before_s) == (0, again_s)


def test_one_that_is_taken_while_some_are_put_back_waits_for_its_turn(tenure: Tenure) -> None:
    first, _ = handed(tenure), handed(tenure)
    tenure._seen = tenure._put_backs
    first.nak()
    taken = tenure.inbox.popleft()

    assert tenure.begin(taken, 1) is None

    assert rest(tenure) == [0, 1, 2, 3, 4]
    assert [handed(tenure).offset for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_dead_letter_is_void_when_its_message_is_put_back(tenure: Tenure) -> None:
    first, second = handed(tenure), handed(tenure)
    second.term("not this one")
    tenure.skip(tenure.take(), Outgoing("dlq.orders", 0, None, b"expired", ()))
    first.nak()

    for _ in range(3):
        handed(tenure).ack()

    assert (tenure.watermark, tenure.letters(5)) == (3, [])
