"""A redriver that is killed holding letters: the tracker brings them back to the dead letters."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import marq
from marq.embedded import tether
from tests.e2e.kafka_fixtures import new_name
from tests.e2e.kafka_process import ROOT, eventually

if TYPE_CHECKING:
    from tests.conftest import Tracked

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.e2e]

PATIENCE_S = 60.0


def test_the_letters_of_a_killed_redriver_come_back_and_are_redriven_once(tracked: Tracked) -> None:
    with marq.connect(f"kafka://{tracked.bootstrap_servers}") as broker:
        orders = broker.queue(new_name())
        orders.dead_letters.send_many(["a", "b"])
        about = [tracked.bootstrap_servers, orders.name, "won", "1000"]
        command = [sys.executable, "-m", "tests.e2e.redriver", *about]
        killed = subprocess.run(
            [sys.executable, tether.__file__, str(os.getpid()), *command],
            cwd=ROOT, input="go\n", capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert killed.stdout == "ready\nwindow won\n", killed.stderr
        assert orders.dead_letters.list() == []

        assert eventually(lambda: len(orders.dead_letters.list()) == 2, PATIENCE_S)

        assert orders.dead_letters.redrive() == 2
        found = orders.receive(max=10, wait="20s")
        while len(found) < 2:
            found += orders.receive(max=10, wait="20s")
        assert sorted(each.payload for each in found) == ["a", "b"]
        assert orders.dead_letters.list() == []
