"""Namespaces of one cluster: each has a tracker, several of them in one Spark application."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import marq
from marq.cli import app
from marq.core import names
from marq.core.markers import codec
from marq.core.markers.marker import Action, Claim, ClaimId, Held, Hold, Progress, Source, Step
from marq.core.messages import header
from marq.core.messages.header import Meta
from marq.core.messages.stored import Outgoing
from marq.core.subject import Subject
from marq.errors import UnknownMarkerVersion
from marq.kafka.backend import Kafka
from tests.e2e.kafka_fixtures import new_name
from tests.e2e.kafka_process import eventually
from tests.tracker_process import TrackerProcess

if TYPE_CHECKING:
    from tests.conftest import Tracked

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.e2e, pytest.mark.timeout(600)]

PATIENCE_S = 200.0
"""Three trackers are at work: on a busy machine each of them is slow."""
OURS = ("pay", "ship", "spare")
"""`spare` is stopped by a test, for good."""
NEWER = bytes((codec.MAGIC, 255, 1))
"""A marker of a version that nobody here knows."""


@pytest.fixture(scope="module")
def theirs(tracked: Tracked, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrackerProcess]:
    """One process that keeps the time of several namespaces, beside the tracker of none."""
    options = [word for name in OURS for word in ("--namespace", name)]
    checkpoint = tmp_path_factory.mktemp("namespaces") / "checkpoint"
    with TrackerProcess(tracked.bootstrap_servers, checkpoint, options=options) as process:
        for name in OURS:
            process.wait_until_told(f"the tracker of namespace '{name}' keeps time")
        yield process


@pytest.fixture
def teams(tracked: Tracked) -> Iterator[dict[str, marq.Broker]]:
    url = f"kafka://{tracked.bootstrap_servers}"
    with ExitStack() as stack:
        yield {name: stack.enter_context(marq.connect(url, namespace=name)) for name in ("", *OURS)}


def test_each_namespace_s_tracker_keeps_its_time(
    theirs: TrackerProcess, teams: dict[str, marq.Broker]
) -> None:
    kept = [teams[name] for name in ("", "pay", "ship")]
    queues = [each.queue(new_name(), lease="1s", max_attempts=2) for each in kept]
    for queue in queues:
        queue.send("later", delay="11s")
        queue.send("deadly")

    for queue in queues:
        assert taken(queue, 3) == {"deadly": [1, 2], "later": [1]}, theirs.tail()
        assert eventually(partial(has_a_letter, queue), PATIENCE_S), theirs.tail()
        assert queue.dead_letters.redrive() == 1
        assert taken(queue, 1) == {"deadly": [1]}
    for name in ("pay", "ship"):
        assert theirs.metrics(namespace=name)["marq_tracker_messages_total"] > 0


def test_a_team_that_forges_in_its_own_logs_does_nothing_to_another_s_messages(
    theirs: TrackerProcess, teams: dict[str, marq.Broker], tracked: Tracked
) -> None:
    """All trackers run: the one of no namespace is told to bury, copy, end and release what is
    another's."""
    queue = teams["pay"].queue(new_name(), partitions=1, lease="1m")
    for payload in ("0", "1", "2"):
        queue.send(payload)
    pay, attacker = (teams[name].backend for name in ("pay", ""))
    assert isinstance(pay, Kafka) and isinstance(attacker, Kafka)
    before = tracked.tracker.metrics()["marq_tracker_put_off_total"]

    forge(attacker, queue.name, pay.admin.topic_id(queue.name) or b"")

    def put_off() -> bool:
        now = tracked.tracker.metrics()["marq_tracker_put_off_total"]
        return now >= before + EVENTS

    assert eventually(put_off, PATIENCE_S), tracked.tracker.tail()
    assert pay.admin.spans({queue.name: 1, f"dlq.{queue.name}": 1}) == {
        (queue.name, 0): (0, 3),
        (f"dlq.{queue.name}", 0): (0, 0),
    }
    assert taken(queue, 3) == {"0": [1], "1": [1], "2": [1]}


EVENTS = 3
"""A message to be buried, one that lapsed, one that is due."""


def forge(attacker: Kafka, queue: str, topic_id: bytes) -> None:
    source = Source(topic_id, 0, queue, "", 0)
    buried, lapsed, ended = (ClaimId(666, number) for number in (1, 2, 3))
    place = names.markers_partition(queue, 0, attacker.markers_partitions)
    for marker in (
        Claim(buried, source, 0, ((0, 1),), 600_000),
        Hold((Held(buried, 1, Action.BURY, reason="because"),)),
        Claim(lapsed, source, 1, ((1, 1),), 1),
        Claim(ended, source, 2, ((2, 1),), 600_000),
        Progress((Step(ended, 1),)),
    ):
        attacker.sender.append("marq.markers", place, codec.encode(marker), 30)
    parked = header.join(Meta(queue=queue, delay_ms=1), ())
    attacker.sender.send(Outgoing("marq.delayed", 0, None, b"forged", parked)).result(30)


def test_a_newer_record_stops_one_namespace_alone_until_it_is_skipped_on_request(
    theirs: TrackerProcess, teams: dict[str, marq.Broker], tracked: Tracked, tmp_path: Path
) -> None:
    spare, backend = teams["spare"], teams["spare"].backend
    assert isinstance(backend, Kafka)
    stopped, other = (teams[name].queue(new_name(), lease="1s") for name in ("spare", "ship"))
    letters = Subject(names.dead_letters(stopped.name))
    number = letters.markers_partition(0, backend.markers_partitions)
    where = f"marq-spare.markers[{number}] at offset"
    backend.sender.append("marq-spare.markers", number, NEWER, 30)

    theirs.wait_until_told(where)
    theirs.wait_until_told("stopped, to be started again namespace=spare")
    for queue in (stopped, other):
        queue.send("deadly")
    assert taken(other, 2) == {"deadly": [1, 2]}, theirs.tail()
    with pytest.raises(UnknownMarkerVersion, match=re.escape(where)):
        stopped.dead_letters.list()
    told = CliRunner().invoke(
        app,
        ["dlq", "ls", stopped.name, "--url", f"kafka://{tracked.bootstrap_servers}"],
        env={"MARQ_NAMESPACE": "spare"},
    )
    assert (told.exit_code, where in told.output) == (1, True)

    options = ("--namespace", "spare", "--skip-newer")
    with TrackerProcess(tracked.bootstrap_servers, tmp_path / "new", options=options) as new:
        new.wait_until_ready()
        assert taken(stopped, 2) == {"deadly": [1, 2]}, new.tail()
        assert new.metrics()["marq_tracker_skipped_records"] >= 1
        theirs.wait_until_told("stopped for good namespace=spare")
    assert theirs.running
    assert spare.queues()


def has_a_letter(queue: marq.Queue[Any]) -> bool:
    return queue.stats().dead == 1


def taken(queue: marq.Queue[Any], deliveries: int) -> dict[str, list[int]]:
    """The attempts of so many deliveries by payload; what is deadly is left to lapse."""
    found: dict[str, list[int]] = defaultdict(list)
    until = time.monotonic() + PATIENCE_S
    while sum(map(len, found.values())) < deliveries and time.monotonic() < until:
        for delivery in queue.receive(max=10, wait="1s"):
            found[delivery.payload].append(delivery.attempt)
            if delivery.payload != "deadly":
                delivery.ack()
    return dict(found)
