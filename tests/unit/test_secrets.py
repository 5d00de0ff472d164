"""What carries Kafka settings shows none of them: reprs get into logs, plans and tracebacks."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from marq.core.names import Space
from marq.groups.config import GroupConfig
from marq.groups.names import GroupNames
from marq.kafka.groups.clients import GroupClients
from marq.spark.acting import Acting
from marq.spark.group_router import Copying
from marq.spark.pipeline import QuerySource

PASSWORD = "hidden-1"
SETTINGS: dict[str, Any] = {"sasl.password": PASSWORD}
EXTRA = tuple(SETTINGS.items())
NAMES = GroupNames("orders", "billing", Space())


@pytest.mark.parametrize(
    "carrier",
    [
        Acting("host:9092", EXTRA, "", frozenset()),
        Copying("host:9092", EXTRA, NAMES, GroupConfig(1), (), ()),
        QuerySource("host:9092", Space(), SETTINGS),
        GroupClients("host:9092", SETTINGS, None, 1, 1.0),  # type: ignore[arg-type]
    ],
)
def test_what_carries_settings_does_not_show_them(carrier: object) -> None:
    assert PASSWORD not in repr(carrier)
    assert "host:9092" in repr(carrier)
