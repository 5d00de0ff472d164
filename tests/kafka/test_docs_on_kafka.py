"""What README and tutorial show of Kafka runs on a real one, with a tracker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Tracked
from tests.unit.test_docs import run

pytestmark = [pytest.mark.java, pytest.mark.kafka]


def test_the_code_of_the_readme_for_kafka_runs(tracked: Tracked) -> None:
    shown = run("README.md", "python kafka", at(tracked))

    with shown["broker"] as broker:
        broker.run(shown["orders"], until_idle=True)
        stats = shown["orders"].stats()
        broker.delete_queue("orders")
    assert stats.dead == 0


def test_the_tutorial_runs_from_top_to_bottom(
    tracked: Tracked, capsys: pytest.CaptureFixture[str]
) -> None:
    defined = run("docs/tutorial.md", "python kafka", at(tracked))
    defined.clear()  # its own producer would go on when the broker is gone

    told = capsys.readouterr().out
    assert "{'id': 2} 2" in told
    assert [f"  attempt {number} ConnectionError" in told for number in (1, 2, 3)] == [True] * 3


def at(tracked: Tracked) -> Callable[[str], str]:
    """Puts this run's broker in the place of the one a page names."""
    return lambda code: code.replace("localhost:9092", tracked.bootstrap_servers)
