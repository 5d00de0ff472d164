"""What README and tutorial show of Kafka runs on a real one, with a tracker."""

from __future__ import annotations

import pytest

from tests.conftest import Tracked
from tests.unit.test_docs import run

pytestmark = [pytest.mark.java, pytest.mark.kafka]


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_the_code_for_kafka_runs_from_top_to_bottom(page: str, tracked: Tracked) -> None:
    shown = "localhost:9092"
    asked = []

    def here(code: str) -> str:
        asked.append(shown in code)
        return code.replace(shown, tracked.bootstrap_servers)

    defined = run(page, "python kafka", here)

    assert any(asked)
    broker = defined["broker"]
    if "orders" in broker.queues():
        broker.run(defined["orders"], until_idle=True)
        assert defined["orders"].stats().dead == 0
        broker.delete_queue("orders")
    broker.close()
