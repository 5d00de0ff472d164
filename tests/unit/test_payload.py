"""Payloads to bytes and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

import marq
from marq.core.messages import payload
from marq.errors import PayloadError


class Struct(msgspec.Struct):
    number: int


@dataclass
class Data:
    number: int


class Model(pydantic.BaseModel):
    number: int


class Holder(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    anything: object


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (b"x", (b"x", None)),
        (memoryview(b"x"), (b"x", None)),
        ("ü", ("ü".encode(), b"text/plain; charset=utf-8")),
        ({"a": 1}, (b'{"a":1}', b"application/json")),
        (Struct(7), (b'{"number":7}', b"application/json")),
        (Data(7), (b'{"number":7}', b"application/json")),
        (Model(number=7), (b'{"number":7}', b"application/json")),
    ],
)
def test_a_payload_is_bytes_and_a_content_type(value: Any, encoded: tuple[bytes, bytes]) -> None:
    assert payload.encode(value) == encoded


@pytest.mark.parametrize(
    "value",
    [object(), {"a": object()}, lambda: None, "\ud800", ["\ud800"], Holder(anything=object())],
)
def test_what_is_no_payload_is_refused_before_anything_is_written(
    marq_broker: marq.Broker, value: Any
) -> None:
    orders = marq_broker.queue("orders")

    with pytest.raises(PayloadError, match="a payload is bytes, str, a Struct, dataclass") as error:
        orders.send(value)

    assert error.value.kind == type(value).__name__
    assert orders.stats().ready == 0


def test_a_payload_that_holds_itself_is_refused() -> None:
    with pytest.raises(PayloadError, match="not list"):
        payload.encode(ITSELF)


@pytest.mark.parametrize(
    ("wanted", "data"),
    [
        (Struct, b"{}"),
        (Struct, b""),
        (Data, b'{"number":"seven"}'),
        (Model, b'{"number":"seven"}'),
        (int, b"x"),
        (str, b"\xff"),
        (list[int], b'["x"]'),
    ],
)
def test_what_does_not_decode_is_an_error_with_its_size_but_not_its_bytes(
    wanted: Any, data: bytes
) -> None:
    with pytest.raises(PayloadError, match=f"the payload of {len(data)} bytes is not a") as error:
        payload.decode(data, None, wanted)

    assert error.value.size == len(data)
    assert "seven" not in str(error.value)


@pytest.mark.parametrize(
    ("content_type", "data"),
    [(b"application/json", b"{"), (b"text/plain; charset=utf-8", b"\xff")],
)
def test_a_content_type_that_lies_is_an_error(content_type: bytes, data: bytes) -> None:
    with pytest.raises(PayloadError, match="it says it is"):
        payload.decode(data, content_type)


@pytest.mark.parametrize("content_type", [None, b"image/png", b""])
def test_anything_else_stays_bytes(content_type: bytes | None) -> None:
    assert payload.decode(b"{}", content_type) == b"{}"


def test_the_type_wanted_wins_over_the_content_type() -> None:
    assert payload.decode(b'{"number":7}', b"application/json", bytes) == b'{"number":7}'
    assert payload.decode(b'{"number":7}', None, Struct) == Struct(7)
    assert payload.decode(b'{"number":7}', b"application/json", Any) == {"number": 7}


class Stubborn(msgspec.Struct):
    number: int

    def __post_init__(self) -> None:
        raise Untold


class Untold(Exception):
    """Does not even say what is wrong."""

    def __str__(self) -> str:
        raise KeyError("injected")


BOMB = b"[" * 200_000


@pytest.mark.parametrize(
    ("data", "content_type", "wanted"),
    [
        (BOMB, b"application/json", None),
        (BOMB, None, list),
        (BOMB, None, Model),
        (b'{"number":7}', None, Stubborn),
    ],
)
def test_whatever_a_payload_brings_about_is_one_error(
    data: bytes, content_type: bytes | None, wanted: Any
) -> None:
    with pytest.raises(PayloadError, match=f"of {len(data)} bytes"):
        payload.decode(data, content_type, wanted)
