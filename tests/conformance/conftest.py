"""The backends the suite runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.world import MemoryWorld, World

BACKENDS: dict[str, type[World]] = {
    "memory": MemoryWorld,
    # "kafka" joins here.
}


@pytest.fixture(params=BACKENDS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world of its own for each test, on each backend."""
    kind = BACKENDS[request.param]
    if request.node.get_closest_marker("needs_tracker") and not kind.has_tracker:
        pytest.skip("nobody keeps time on this backend")
    found = kind()
    yield found
    found.close()
