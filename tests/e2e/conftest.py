"""Fixtures for tests of the hot path."""

from __future__ import annotations

from tests.e2e.kafka_fixtures import broker, connect, crew, new_queue, oracle

__all__ = ["broker", "connect", "crew", "new_queue", "oracle"]
