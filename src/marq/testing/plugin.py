"""The pytest plugin that comes with marq: a broker in memory for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from marq.broker import Broker, connect


@pytest.fixture
def marq_broker() -> Iterator[Broker]:
    """A memory broker of its own; `marq_broker.clock.advance("30s")` lets time go by."""
    with connect("memory://") as broker:
        yield broker
