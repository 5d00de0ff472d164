"""How properties are tried; how often, see `effort`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from marq.core.fold import parked, sources
from tests.properties.effort import EXAMPLES

settings.register_profile(
    "marq",
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("marq")

# A set of 65,536 indexes is an integer too long to print otherwise: failures must be shown.
sys.set_int_max_str_digits(0)


@pytest.fixture(autouse=True, scope="module")
def narrow_chunks() -> Iterator[None]:
    """So narrow that in the seconds of a test parked messages move through all levels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parked, "CHUNK_MS", 64)
        yield


@pytest.fixture(autouse=True, scope="module")
def soon_idle() -> Iterator[None]:
    """So short that in the seconds of a test sources are put aside and fetched again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "IDLE_MS", 500)
        yield
