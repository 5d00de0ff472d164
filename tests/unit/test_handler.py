"""Which functions can be handlers, and what they are called with."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import marq
from marq.errors import ConfigError
from marq.work.handler import Handler

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


def handler(function: Any, batch: bool = False, queue_type: Any = None) -> Handler:
    return Handler.of(function, queue_type, 16, "12h", batch)


def payload_only(payload: int) -> None: ...
def payload_and_delivery(payload: int, delivery: Any) -> None: ...
def delivery_first(delivery: marq.Delivery[int], payload: int) -> None: ...
def delivery_only(delivery: marq.Delivery) -> None: ...  # type: ignore[type-arg]
def typed_delivery_only(delivery: marq.Delivery[int]) -> None: ...
def plain(payload): ...  # type: ignore[no-untyped-def]
def with_default(payload: int, retries: int = 3) -> None: ...
def with_rest(payload: int, *rest: Any, **more: Any) -> None: ...
def unknown_payload(payload: Unknown, delivery: marq.Delivery[Any]) -> None: ...
def unknown_result(delivery: marq.Delivery[int]) -> Unknown: ...
def payload_list(payloads: list[int], deliveries: list[marq.Delivery[int]]) -> None: ...
def delivery_list(deliveries: list[marq.Delivery[int]]) -> None: ...


class Callable_:
    async def __call__(self, payload: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "batch", "takes", "wanted"),
    [
        (payload_only, False, (False,), int),
        (payload_and_delivery, False, (False, True), int),
        (delivery_first, False, (True, False), int),
        (delivery_only, False, (True,), None),
        (typed_delivery_only, False, (True,), int),
        (plain, False, (False,), None),
        (with_default, False, (False,), int),
        (with_rest, False, (False,), int),
        (unknown_payload, False, (False, True), None),
        (unknown_result, False, (True,), int),
        (payload_list, True, (False, True), int),
        (delivery_list, True, (True,), int),
        (Callable_(), False, (False,), int),
        ([].append, False, (False,), None),
        (lambda payload, delivery: None, False, (False, True), None),
    ],
)
def test_a_function_is_given_what_its_parameters_say(
    function: Any, batch: bool, takes: tuple[bool, ...], wanted: Any
) -> None:
    found = handler(function, batch)

    assert (found.takes, found.wanted) == (takes, wanted)


def test_the_queue_s_type_is_taken_where_the_function_says_nothing() -> None:
    assert handler(plain, queue_type=str).wanted is str
    assert handler(payload_only, queue_type=str).wanted is int


def test_async_functions_are_known_however_they_come() -> None:
    async def handle(payload: int, delivery: Any) -> None: ...

    assert handler(handle).is_async
    assert handler(Callable_()).is_async
    assert handler(functools.partial(handle, delivery=None)).is_async
    assert not handler(payload_only).is_async


def nothing() -> None: ...
def three(payload: int, delivery: Any, context: Any) -> None: ...
def by_name(payload: int, *, database: Any) -> None: ...
def generates(payload: int) -> Iterator[int]:
    yield payload


async def generates_async(payload: int) -> AsyncIterator[int]:
    yield payload


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (None, "a handler must be a function"),
        ("app:handle", "a handler must be a function"),
        (nothing, "takes the payload, or the payload and the delivery: nothing takes"),
        (three, r"three takes \(payload: 'int', delivery: 'Any', context: 'Any'\)"),
        (by_name, "by_name takes"),
        (generates, "a handler must be a function that returns"),
        (generates_async, "a handler must be a function that returns"),
    ],
)
def test_what_cannot_be_a_handler_is_refused(
    marq_broker: marq.Broker, function: Any, advice: str
) -> None:
    orders = marq_broker.queue("orders")

    with pytest.raises(ConfigError, match=advice):
        orders.handler()(function)

    assert orders.handling is None


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"concurrency": 0}, "concurrency must be between 1 and 10000, not 0"),
        ({"concurrency": 10_001}, "concurrency must be between 1 and 10000"),
        ({"concurrency": "many"}, "concurrency must be between 1 and 10000"),
        ({"timeout": 0}, "timeout must be longer than 0"),
        ({"timeout": "soon"}, "timeout must be a duration"),
    ],
)
def test_wrong_arguments_of_a_handler_are_refused(
    marq_broker: marq.Broker, given: dict[str, Any], advice: str
) -> None:
    orders = marq_broker.queue("orders")

    with pytest.raises(ConfigError, match=advice):
        orders.handler(**given)(payload_only)


def test_a_queue_has_one_handler(marq_broker: marq.Broker) -> None:
    orders = marq_broker.queue("orders")
    orders.handler()(payload_only)

    with pytest.raises(ConfigError, match="has a handler already: a queue has one"):
        orders.handler()(plain)


def test_forgotten_parentheses_are_told_about(marq_broker: marq.Broker) -> None:
    forgetful: Callable[..., Any] = marq_broker.queue("orders").handler

    with pytest.raises(ConfigError, match="with parentheses"):
        forgetful(payload_only)
