"""Handlers: return = ack, an exception = try again later, reject = give up now."""

import logging

import msgspec

import marq


class Order(msgspec.Struct):
    id: int
    amount: int


broker = marq.connect("memory://")
orders = broker.queue("orders", type=Order, max_attempts=3, backoff=("10s", "5m"))


@orders.handler(concurrency=4)
def charge(order: Order, delivery: marq.Delivery[Order]) -> None:
    if order.amount < 0:
        delivery.reject("a negative amount")
        return
    if order.id == 2 and delivery.attempt < 3:
        raise ConnectionError("the bank does not answer")
    print(f"charged {order.amount} for order {order.id}, attempt {delivery.attempt}")


logging.getLogger("marq").setLevel(logging.ERROR)  # a handler that fails logs a warning

for order in (Order(1, 30), Order(2, 50), Order(3, -1)):
    orders.send(order)

broker.run(orders, until_idle=True)
for wait in ("15s", "30s"):  # the backoff: 10 s, then 20 s, each with some jitter
    broker.clock.advance(wait)
    broker.run(orders, until_idle=True)

for letter in orders.dead_letters.list():
    print(f"dead: order {letter.payload['id']}: {letter.reason}")

broker.close()
