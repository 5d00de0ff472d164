"""Threads that wait for answers: each is woken by its own, and by what ends them all."""

from __future__ import annotations

import threading

import pytest

from marq import QueueError
from marq.kafka.client.answers import Answer, WaitingRoom

PATIENCE_S = 30.0


class Waiter:
    """A thread that waits for an answer."""

    def __init__(self, answer: Answer[int]) -> None:
        self.found: list[int | Exception] = []
        self._answer = answer
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        try:
            self.found.append(self._answer.result(PATIENCE_S))
        except Exception as error:
            self.found.append(error)

    def is_over(self) -> bool:
        self._thread.join(PATIENCE_S)
        return not self._thread.is_alive()


def test_each_of_many_threads_gets_its_own_answer_and_nobody_waits_on() -> None:
    room = WaitingRoom()
    answers = [Answer[int](room) for _ in range(20)]
    waiters = [Waiter(answer) for answer in answers]

    for number, answer in enumerate(answers):
        answer.fill(number)

    assert all(waiter.is_over() for waiter in waiters)
    assert [waiter.found for waiter in waiters] == [[number] for number in range(20)]
    assert (room._waiters, room._gates) == (0, {})


def test_an_answer_wakes_all_that_wait_for_it() -> None:
    answer = Answer[int](WaitingRoom())
    waiters = [Waiter(answer) for _ in range(3)]

    answer.fill(7)

    assert all(waiter.is_over() for waiter in waiters)
    assert [waiter.found for waiter in waiters] == [[7]] * 3


def test_all_are_told_that_no_answers_come_any_more() -> None:
    room, error = WaitingRoom(), QueueError("the log is gone")
    waiters = [Waiter(Answer[int](room)) for _ in range(3)]

    room.break_off(error)

    assert all(waiter.is_over() for waiter in waiters)
    assert [waiter.found for waiter in waiters] == [[error]] * 3


def test_who_waits_no_longer_is_told_so() -> None:
    room = WaitingRoom()

    with pytest.raises(TimeoutError):
        Answer[int](room).result(0.01)

    assert (room._waiters, room._gates) == (0, {})
