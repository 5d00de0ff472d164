"""Below the start of a topic nothing is unacked, whatever happened to it: on a real broker.

TRIMMING_SEEDS=7-90 runs these seeds instead of two, each longer.
"""

from __future__ import annotations

import os

import pytest

from marq import embedded
from tests.e2e.kafka_fixtures import Connect
from tests.kafka.trimming_world import World

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.timeout(600)]

_FIRST, _, _LAST = os.environ.get("TRIMMING_SEEDS", "1-2").partition("-")
STEPS = 40 if "TRIMMING_SEEDS" in os.environ else 15


@pytest.mark.parametrize("seed", range(int(_FIRST), int(_LAST or _FIRST) + 1))
def test_nothing_unacked_is_trimmed(kafka: embedded.Runtime, connect: Connect, seed: int) -> None:
    World(kafka, connect, seed).run(STEPS)
