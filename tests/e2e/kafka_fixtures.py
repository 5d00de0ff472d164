"""Fixtures of the tests that run on the one real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import marq
from marq import embedded
from tests.e2e.kafka_oracle import Oracle
from tests.e2e.kafka_process import Crew

NewQueue = Callable[..., marq.Queue[Any]]
Connect = Callable[..., marq.Broker]


def new_name() -> str:
    """A queue's name nobody else has."""
    return f"q{uuid4().hex[:12]}"


@pytest.fixture
def oracle(kafka: embedded.Runtime) -> Iterator[Oracle]:
    found = Oracle(kafka.bootstrap_servers)
    yield found
    found.close()


@pytest.fixture
def connect(kafka: embedded.Runtime) -> Iterator[Connect]:
    """Brokers, each as another process would have it."""
    brokers: list[marq.Broker] = []

    def more(**settings: Any) -> marq.Broker:
        brokers.append(marq.connect(f"kafka://{kafka.bootstrap_servers}", **settings))
        return brokers[-1]

    yield more
    for each in brokers:
        each.close()


@pytest.fixture
def broker(connect: Connect) -> marq.Broker:
    return connect()


@pytest.fixture
def new_queue(broker: marq.Broker) -> NewQueue:
    return lambda **options: broker.queue(new_name(), **options)


@pytest.fixture
def crew(kafka: embedded.Runtime) -> Iterator[Crew]:
    with Crew(kafka.bootstrap_servers) as found:
        yield found
