"""How to test your own code: the fixture `marq_broker` comes with marq.

Run it with `pytest examples/users_test.py`.
"""

import marq


class Shop:
    """The code under test: it is handed a broker and knows nothing of tests."""

    def __init__(self, broker: marq.Broker) -> None:
        self.paid: list[str] = []
        self.bank_is_up = True
        self.orders = broker.queue("orders", max_attempts=2, backoff=("1m", "1h"))
        self.orders.handler()(self.charge)

    def charge(self, order: str) -> None:
        if not self.bank_is_up:
            raise ConnectionError("the bank does not answer")
        self.paid.append(order)


def test_an_order_is_paid_once(marq_broker: marq.Broker) -> None:
    shop = Shop(marq_broker)
    shop.orders.send("order 7")

    marq_broker.run(shop.orders, until_idle=True)

    assert shop.paid == ["order 7"]


def test_an_order_is_paid_when_the_bank_is_up_again(marq_broker: marq.Broker) -> None:
    shop = Shop(marq_broker)
    shop.orders.send("order 7")
    shop.bank_is_up = False
    marq_broker.run(shop.orders, until_idle=True)

    shop.bank_is_up = True
    marq_broker.clock.advance("2m")
    marq_broker.run(shop.orders, until_idle=True)

    assert shop.paid == ["order 7"]


def test_an_order_that_cannot_be_paid_is_kept(marq_broker: marq.Broker) -> None:
    shop = Shop(marq_broker)
    shop.orders.send("order 7")
    shop.bank_is_up = False

    for _ in range(2):
        marq_broker.run(shop.orders, until_idle=True)
        marq_broker.clock.advance("2m")

    (letter,) = shop.orders.dead_letters.list()
    assert (letter.payload, letter.attempts) == ("order 7", 2)
    assert "the bank does not answer" in letter.reason
