"""Giving back returns at once; the message ends when its copy is in the log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from marq.errors import NotConnected
from marq.kafka.client.answers import Answer
from marq.kafka.leasing.append_time import AppendTime
from marq.kafka.leasing.given_back import GivenBack
from marq.kafka.leasing.ledger import reported
from tests.unit.test_ack_interleavings import Desk


def given_back(desk: Desk) -> tuple[GivenBack, Answer[Any]]:
    copy: Answer[Any] = Answer(desk.waiting)
    return GivenBack(copy, desk.handout, 0), copy


def land(desk: Desk) -> None:
    """What is written by now is in the log."""
    desk.flush()
    for statements in desk.written:
        reported(statements, AppendTime.at(1))
    desk.written.clear()


def test_a_message_that_is_given_back_ends_once_its_copy_is_in_the_log() -> None:
    desk = Desk()
    given, copy = given_back(desk)

    desk.ledger.end_copied()
    assert desk.ledger.unwritten() == 1
    assert not given.done()
    copy.fill(None)
    desk.ledger.end_copied()
    assert not given.done()
    land(desk)

    assert given.done()
    given.result(0)
    assert desk.ledger.unwritten() == 0


def test_whoever_waits_need_not_wait_for_the_flusher_to_see_the_copy() -> None:
    desk = Desk()
    given, copy = given_back(desk)
    copy.fill(None)

    with pytest.raises(TimeoutError):
        given.result(0)
    land(desk)

    given.result(0)
    desk.ledger.end_copied()  # it ends once
    assert desk.handout.ended == [0]


def test_a_message_whose_copy_is_refused_is_kept_from_nobody() -> None:
    desk = Desk()
    given, copy = given_back(desk)
    left = desk.handout.claim.left

    copy.fail(NotConnected("no broker takes it"))
    desk.ledger.end_copied()

    with pytest.raises(NotConnected):
        given.result(0)
    assert given.done()
    assert desk.handout.claim.left == left - 1
    assert desk.handout.ended == []


def test_a_task_can_wait_for_it() -> None:
    desk = Desk()
    given, copy = given_back(desk)
    copy.fill(None)

    async def wait() -> None:
        asyncio.get_running_loop().call_soon(land, desk)
        await given

    asyncio.run(asyncio.wait_for(wait(), 30))
