"""The pytest plugin that comes with marq: a broker in memory for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from marq.broker import Broker


@pytest.fixture
def marq_broker() -> Iterator[Broker]:
    """A memory broker of its own; `marq_broker.clock.advance("30s")` lets time go by."""
    # Imported here: pytest loads the plugin wherever marq is installed, also where it is not used.
    from marq.broker import connect

    with connect("memory://") as broker:
        yield broker
