"""An answer that is there already."""

from __future__ import annotations

import asyncio

from marq.receipt import Answered, Receipt


def test_it_is_done_and_tells_its_value_as_often_as_asked() -> None:
    receipt: Receipt[int] = Answered(7)

    assert receipt.done()
    assert [receipt.result(), receipt.result(0), receipt.result(1.5)] == [7, 7, 7]


def test_awaiting_it_does_not_suspend() -> None:
    receipt = Answered(7)

    async def twice() -> list[int]:
        return [await receipt, await receipt]

    with asyncio.Runner() as runner:
        assert runner.run(twice()) == [7, 7]
