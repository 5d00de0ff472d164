"""What is sent is what is delivered: payload, key, headers and id."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

import marq
from tests.conformance.world import World


class Struct(msgspec.Struct):
    number: int


@dataclass
class Data:
    number: int


class Model(pydantic.BaseModel):
    number: int


def test_what_was_sent_is_delivered_once_and_gone_after_its_ack(world: World) -> None:
    orders = world.queue()
    sent = orders.send(b"hello")

    delivery = world.take_one(orders)
    delivery.ack().result(world.patience_s)

    assert (delivery.payload, delivery.attempt, delivery.queue) == (b"hello", 1, orders.name)
    assert delivery.message_id == sent.message_id
    assert world.is_quiet(orders)


def test_the_id_is_the_place_where_the_message_lies(world: World) -> None:
    orders = world.queue()

    sent = orders.send(b"")

    assert sent.message_id == f"{sent.topic}:{sent.partition}:{sent.offset}"
    assert (sent.topic, sent.due) == (orders.name, None)


def test_the_sender_may_give_the_id(world: World) -> None:
    orders = world.queue()

    sent = orders.send(b"", message_id="order 7")

    assert sent.message_id == "order 7"
    assert world.take_one(orders).message_id == "order 7"


@pytest.mark.needs_tracker
@pytest.mark.parametrize("given", [None, "order 7"])
def test_id_key_headers_payload_and_time_are_the_same_in_every_copy(
    world: World, given: str | None
) -> None:
    orders = world.queue()
    headers: dict[str, str | bytes] = {"traceparent": "00-ab-cd-01", "raw": b"\xff\x00"}
    orders.send({"a": 1}, key="customer 3", headers=headers, message_id=given)
    first = world.take_one(orders)
    first.retry().result(world.patience_s)

    again = world.take_one(orders)

    assert (first.attempt, again.attempt) == (1, 2)
    assert again.message_id == first.message_id
    assert again.key == first.key == b"customer 3"
    assert again.payload == first.payload == {"a": 1}
    assert again.headers == first.headers
    assert again.headers["traceparent"] == b"00-ab-cd-01"
    assert again.headers["raw"] == b"\xff\x00"
    assert again.sent_at == first.sent_at


def test_of_headers_with_equal_names_all_are_sent_and_the_last_is_shown(world: World) -> None:
    orders = world.queue()

    orders.send(b"", headers=[("tag", "a"), ("tag", "b")])

    assert world.take_one(orders).headers == {"tag": b"b"}


def test_bytes_travel_without_a_header(world: World) -> None:
    orders = world.queue()

    orders.send(b"")

    assert world.take_one(orders).headers == {}


@pytest.mark.parametrize(
    ("payload", "delivered"),
    [
        (b"\x00\xff", b"\x00\xff"),
        (b"", b""),
        (bytearray(b"x"), b"x"),
        ("grüße", "grüße"),
        ({"a": [1, None, True, "ü"]}, {"a": [1, None, True, "ü"]}),
        ([1, 2], [1, 2]),
        (7, 7),
        (None, None),
        (Struct(7), {"number": 7}),
        (Data(7), {"number": 7}),
        (Model(number=7), {"number": 7}),
    ],
    ids=repr,
)
def test_a_payload_is_delivered_as_its_content_type_says(
    world: World, payload: Any, delivered: Any
) -> None:
    orders = world.queue()

    orders.send(payload)

    assert world.take_one(orders).payload == delivered


@pytest.mark.parametrize(
    "payload", [b"x", "text", {"a": 1}, [1], 7, Struct(7), Data(7), Model(number=7)], ids=repr
)
def test_a_queue_with_a_type_delivers_that_type(world: World, payload: Any) -> None:
    orders = world.queue(type=type(payload))

    orders.send(payload)

    delivered = world.take_one(orders).payload
    assert type(delivered) is type(payload)
    assert delivered == payload


def test_a_payload_that_is_not_of_the_type_is_an_error_when_it_is_looked_at(world: World) -> None:
    orders = world.queue(type=Struct)
    orders.send(b"not json")

    delivery = world.take_one(orders)

    with pytest.raises(marq.PayloadError, match="the payload of 8 bytes is not a Struct"):
        _ = delivery.payload
    assert delivery.raw == b"not json"


def test_send_many_sends_all_with_the_same_options(world: World) -> None:
    orders = world.queue()

    sents = orders.send_many([b"1", b"2", b"3"], key="k", headers={"h": "v"})

    deliveries = world.take(orders, 3)
    assert {d.message_id for d in deliveries} == {sent.message_id for sent in sents}
    assert {(d.payload, d.key, d.headers["h"]) for d in deliveries} == {
        (b"1", b"k", b"v"),
        (b"2", b"k", b"v"),
        (b"3", b"k", b"v"),
    }


def test_messages_of_one_key_are_delivered_in_the_order_sent(world: World) -> None:
    orders = world.queue()
    orders.send_many([str(n) for n in range(20)], key="k")

    assert [d.payload for d in world.take(orders, 20)] == [str(n) for n in range(20)]


def test_a_receipt_tells_where_the_message_is_once_it_is_durable(world: World) -> None:
    orders = world.queue()

    receipt = orders.send_nowait(b"1")
    sent = receipt.result(world.patience_s)

    assert receipt.done()
    assert world.take_one(orders).message_id == sent.message_id


def test_a_receipt_can_be_awaited(world: World) -> None:
    orders = world.queue()

    async def send() -> marq.Sent:
        return await orders.send_nowait(b"1")

    sent = asyncio.run(send())
    assert world.take_one(orders).message_id == sent.message_id


def test_flush_returns_when_everything_sent_so_far_is_durable(world: World) -> None:
    orders = world.queue()
    receipts = [orders.send_nowait(b"") for _ in range(10)]

    orders.flush("10s")

    assert all(receipt.done() for receipt in receipts)


def test_sent_at_is_the_log_s_time(world: World) -> None:
    orders = world.queue()
    before = world.now()

    orders.send(b"")

    assert before <= world.take_one(orders).sent_at <= world.now()
