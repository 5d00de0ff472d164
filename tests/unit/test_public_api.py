"""The names users rely on, and the signatures of the contract."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import marq
from marq import errors
from marq.core.messages.sending import SendOptions


def test_every_public_name_is_there() -> None:
    assert [name for name in marq.__all__ if not hasattr(marq, name)] == []
    assert len(set(marq.__all__)) == len(marq.__all__)


def test_every_public_name_says_what_it_is() -> None:
    assert [name for name in marq.__all__ if not inspect.getdoc(getattr(marq, name))] == []


@pytest.mark.parametrize(
    "name",
    ["Broker", "Queue", "Delivery", "DeadLetters", "Worker", "Group", "GroupDelivery", "Instance"],
)
def test_every_public_method_says_what_comes_of_it(name: str) -> None:
    methods = inspect.getmembers(getattr(marq, name), inspect.isfunction)

    assert [key for key, it in methods if key[0] != "_" and not inspect.getdoc(it)] == []


def test_every_error_is_a_queue_error() -> None:
    found = [each for _, each in inspect.getmembers(errors, inspect.isclass)]

    assert all(issubclass(each, marq.QueueError) for each in found)
    assert issubclass(marq.LeaseLost, marq.DeliveryError)
    assert issubclass(marq.AlreadySettled, marq.DeliveryError)


def test_a_message_has_the_options_of_the_contract() -> None:
    assert list(SendOptions.__annotations__) == [
        "key", "headers", "delay", "at", "ttl", "priority", "message_id",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (marq.Queue.receive, "max=1 wait='0s' lease=None"),
        (marq.Queue.handler, "concurrency=16 timeout='12h' batch=False"),
        (marq.Queue.deliveries, "lease=None"),
        (marq.DeadLetters.list, "limit=100 where=None"),
        (marq.DeadLetters.redrive, "limit=None rate=None where=None progress=None stop=None"),
        (marq.DeadLetters.discard, "limit=None where=None progress=None stop=None"),
        (marq.Delivery.retry, "after='0s' reason=''"),
        (marq.Delivery.reject, "reason=''"),
    ],
)
def test_a_signature_is_as_the_contract_says(function: object, parameters: str) -> None:
    assert callable(function)
    found = list(inspect.signature(function).parameters.values())[1:]

    assert " ".join(f"{p.name}={p.default!r}" for p in found) == parameters


def test_importing_marq_loads_neither_kafka_nor_spark_nor_pytest() -> None:
    code = (
        "import sys, marq;"
        "print([m for m in ('confluent_kafka', 'pyspark', 'pytest', 'pandas') if m in sys.modules])"
    )

    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert found.stdout == "[]\n"
