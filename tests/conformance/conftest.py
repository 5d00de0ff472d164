"""The backends the suite runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.world import KafkaWorld, MemoryWorld, World

BACKENDS = {
    "memory": MemoryWorld,
    "kafka": KafkaWorld,
}


@pytest.fixture(
    params=["memory", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.java])]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world of its own for each test, on each backend."""
    kind = BACKENDS[request.param]
    if kind is KafkaWorld:
        timed = request.node.get_closest_marker("needs_tracker")
        runtime = request.getfixturevalue("tracked" if timed else "kafka")
        KafkaWorld.servers = runtime.bootstrap_servers
    found = kind()
    yield found
    found.close()
