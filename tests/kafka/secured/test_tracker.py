"""A tracker on a secured cluster: it keeps time, and keeps the password it was given to itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import marq
from tests.kafka.secured.cluster import ADMIN, Secured, Settings
from tests.spark_ports import refuse_open_doors
from tests.tracker_process import TrackerProcess

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.timeout(300)]


def in_environment(settings: Settings) -> dict[str, str]:
    return {
        f"MARQ_KAFKA__{name.upper().replace('.', '_')}": str(value)
        for name, value in settings.items()
    }


def test_no_other_user_of_the_machine_gets_at_what_the_tracker_was_given(
    secured: Secured, tmp_path: Path
) -> None:
    settings, password = in_environment(secured.login(ADMIN)), secured.password(ADMIN)
    checkpoint = tmp_path / "checkpoint"

    with TrackerProcess(secured.servers, checkpoint, settings) as tracker:
        tracker.wait_until_ready()
        with marq.connect(f"kafka://{secured.servers}", kafka=secured.login(ADMIN)) as broker:
            queue = broker.queue("kept", lease="1s")
            queue.send(b"1")
            first, again = queue.receive(wait="60s"), queue.receive(wait="60s")
            again[0].ack().result(30)
        refuse_open_doors(tracker.family())
        started_as = [" ".join(process.cmdline()) for process in tracker.family()]
        written = [path for path in checkpoint.rglob("*") if path.is_file()]
        scratch = checkpoint / "scratch"
        open_to_others = [path for path in written if scratch not in path.parents]
        secrets = [path for path in open_to_others if password.encode() in path.read_bytes()]
        rights = scratch.stat().st_mode & 0o777

    assert [each.attempt for each in (*first, *again)] == [1, 2]
    assert not [line for line in started_as if password in line]
    assert password not in tracker.log.read_text()
    assert open_to_others and not secrets
    assert rights == 0o700
