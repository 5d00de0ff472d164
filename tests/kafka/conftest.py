"""Fixtures for tests of the hot path."""

from __future__ import annotations

import pytest

import marq
from marq.kafka.backend import Kafka
from tests.e2e.kafka_fixtures import broker, connect, crew, new_queue, oracle

__all__ = ["broker", "connect", "crew", "new_queue", "oracle"]


@pytest.fixture
def backend(broker: marq.Broker) -> Kafka:
    assert isinstance(broker.backend, Kafka)
    return broker.backend
