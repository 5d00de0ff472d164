"""A tracker on a secured cluster: it keeps time, and keeps the password it was given to itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import marq
from tests.e2e.kafka_process import eventually
from tests.kafka.secured import roles
from tests.kafka.secured.cluster import Secured, in_environment
from tests.spark_ports import command_lines, refuse_open_doors
from tests.tracker_process import TrackerProcess

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.timeout(600)]

SOON_S = 60.0
"""Within 5 s on a quiet machine, most of them Python's and Spark's own start."""


def test_a_tracker_works_with_its_least_rights_and_nobody_gets_at_what_it_was_given(
    secured: Secured, tmp_path: Path
) -> None:
    secured.allow("tracker", *roles.tracker())
    secured.allow("operator", *roles.operator())
    settings, password = in_environment(secured.login("tracker")), secured.password("tracker")
    checkpoint, url = tmp_path / "checkpoint", f"kafka://{secured.servers}"
    with marq.connect(url, kafka=secured.login("operator")) as operator:
        operator.queue("kept", lease="1s", max_attempts=2, backoff=("100ms", "100ms"))

    with TrackerProcess(secured.servers, checkpoint, settings) as tracker:
        tracker.wait_until_ready()
        with marq.connect(url, kafka=secured.login("operator")) as broker:
            queue = broker.queue("kept")
            queue.send(b"1")
            first, again = queue.receive(wait="60s"), queue.receive(wait="60s")
            again[0].reject("no").result(30)
            assert eventually(lambda: bool(queue.dead_letters.list()), 60)
            assert eventually(lambda: queue.stats().dead == 1, 60)
            assert queue.dead_letters.redrive() == 1
            assert eventually(lambda: bool(queue.receive(wait="5s")), 60)
        refuse_open_doors(tracker.family())
        started_as = list(command_lines(tracker.family()))
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


STARTS = {
    "WRITE on transactional_id marq.tracker.": "it takes WRITE on transactional id 'marq.tracker.",
    "READ on topic *": "it takes READ on topic 'marq.catalog'",
}


@pytest.mark.parametrize(("lacks", "said"), STARTS.items())
def test_a_tracker_that_cannot_start_says_which_right_it_lacks(
    secured: Secured, tmp_path: Path, lacks: str, said: str
) -> None:
    with marq.connect(f"kafka://{secured.servers}", kafka=secured.login("admin")):
        pass  # marq's own topics are there
    single = [each for right in roles.tracker() for each in right.singly()]
    secured.allow("tracker", *(each for each in single if str(each) != lacks))
    settings = in_environment(secured.login("tracker"))

    with TrackerProcess(secured.servers, tmp_path / "checkpoint", settings) as tracker:
        tracker.wait_until_told(said, SOON_S)
        code = tracker.wait()

    assert code == 2
