"""The gate that lets a suspect run alone."""

from __future__ import annotations

import threading

from marq.work.gate import Gate


def never() -> bool:
    return False


def test_whoever_closes_it_is_alone_when_the_others_have_left() -> None:
    gate = Gate()
    assert gate.enter()
    gate.bring_in()
    closing = threading.Thread(target=gate.close, args=(30, never))
    closing.start()

    while not gate.closed:
        pass
    gate.leave()

    closing.join(10)
    assert not closing.is_alive()


def test_nobody_comes_in_while_it_is_closed() -> None:
    gate = Gate()
    gate.enter()
    gate.close(30, never)

    assert not gate.enter()
    gate.open()
    assert gate.enter()


def test_it_is_closed_by_one_only() -> None:
    gate = Gate()
    gate.enter()

    assert gate.close(30, never)
    assert not gate.close(30, never)


def test_the_others_are_not_waited_for_for_ever() -> None:
    gate = Gate()
    gate.enter()
    gate.bring_in()

    assert gate.close(0, never)
    assert gate.closed


def test_who_is_told_to_stop_waits_no_longer() -> None:
    gate = Gate()
    gate.enter()
    gate.bring_in()

    assert gate.close(3_600, lambda: True)
