"""The demo's first part: the semantics, in memory, with a clock that can be moved."""

from __future__ import annotations

from collections import Counter

import marq
from marq.cli.demo_stage import Summary, say, title
from marq.testing import crash_workers


def in_memory(summary: Summary) -> None:
    """Acks in any order, a dead worker, retries, a dead letter, a delay: hours go by at once."""
    title("In memory: the semantics, with a clock that can be moved")
    with marq.connect("memory://") as broker:
        orders = broker.queue("orders", lease="30s", max_attempts=3, backoff=("1s", "1m"))
        _acks_in_any_order(orders, summary)
        _dead_worker(broker, orders, summary)
        _poison(broker, orders, summary)
        _delayed(broker, orders, summary)


def _acks_in_any_order(orders: marq.Queue[object], summary: Summary) -> None:
    orders.send_many([{"order": number} for number in range(5)])
    deliveries = orders.receive(max=5)
    for delivery in reversed(deliveries):
        delivery.ack()
    numbers = [delivery.payload for delivery in reversed(deliveries)]
    say(f"5 messages acked one by one, in reverse: {numbers}")
    summary.add_row("messages acked alone, in any order", f"{len(deliveries)} of 5")


def _dead_worker(broker: marq.Broker, orders: marq.Queue[object], summary: Summary) -> None:
    orders.send({"order": "with a worker that dies"})
    [lost] = orders.receive()
    crash_workers(broker)
    say(f"a worker took {lost.message_id} and died; 30 s later ...")
    broker.clock.advance("30s")
    [again] = orders.receive()
    again.ack()
    say(f"... it came back by itself: attempt {again.attempt}, acked")
    try:
        lost.ack()
    except marq.LeaseLost as error:
        say(f"the dead worker's ack is refused: {error}")
    summary.add_row("redelivered after its worker died", f"attempt {again.attempt}")


def _poison(broker: marq.Broker, orders: marq.Queue[object], summary: Summary) -> None:
    handled: Counter[str] = Counter()

    @orders.handler(concurrency=4)
    def charge(order: dict[str, str]) -> None:
        handled[order["order"]] += 1
        if order["order"] == "poison":
            raise ValueError("cannot be charged")

    orders.send_many([{"order": "fine"}, {"order": "poison"}, {"order": "fine too"}])
    while not orders.dead_letters.list():
        broker.run(orders, until_idle=True)
        broker.clock.advance("1m")
    [letter] = orders.dead_letters.list()
    say(f"handled: {dict(handled)}")
    say(f"dead letter: {letter.payload} after {letter.attempts} attempts: {letter.reason}")
    for past in letter.history:
        say(f"  attempt {past.attempt}: {past.reason}")
    summary.add_row("dead letter with its history", f"{letter.attempts} attempts, its own alone")
    orders.dead_letters.discard()


def _delayed(broker: marq.Broker, orders: marq.Queue[object], summary: Summary) -> None:
    broker.clock.freeze()
    orders.send({"order": "later"}, delay="10m")
    broker.clock.advance(599.999)
    early = orders.receive()
    broker.clock.advance("1ms")
    [on_time] = orders.receive()
    on_time.ack()
    say(f"delayed by 10m: 1 ms before {len(early)} handed out, at 10m sharp 1")
    summary.add_row("delayed message", "on the millisecond, never early")
