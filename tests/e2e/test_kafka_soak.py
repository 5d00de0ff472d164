"""The short version of `make soak`."""

from __future__ import annotations

import pytest

from marq import embedded
from tests.e2e.kafka_soak import soak

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.e2e]


def test_no_message_is_lost_while_workers_die_at_random(kafka: embedded.Runtime) -> None:
    run, found = soak(kafka.bootstrap_servers, seed=4, seconds=10)

    assert run.kills
    assert found.acked
    assert not found.lost
