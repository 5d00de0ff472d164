"""A tracker on a secured cluster: it keeps time, names the right it lacks, and keeps the password
it was given to itself."""

from __future__ import annotations

import json
import random
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import marq
from marq.embedded import ports
from tests.e2e.kafka_process import eventually
from tests.kafka.secured import roles
from tests.kafka.secured.cluster import Secured, in_environment
from tests.spark_ports import command_lines, refuse_open_doors
from tests.tracker_process import TrackerProcess

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.timeout(600)]

SOON_S = 60.0
"""Within 5 s on a quiet machine; the tracker looks twice a second, and trims every 10 s."""
PAGES = ("jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery")


def test_each_role_works_with_its_least_rights_and_nobody_gets_at_what_the_tracker_was_given(
    secured: Secured, tmp_path: Path
) -> None:
    secured.allow("tracker", *roles.tracker())
    secured.allow("operator", *roles.operator())
    secured.allow(
        "app", *roles.application("kept"), *roles.member("kept"), *roles.producer("kept-shop")
    )
    settings, password = in_environment(secured.login("tracker")), secured.password("tracker")
    checkpoint, url = tmp_path / "checkpoint", f"kafka://{secured.servers}"
    with marq.connect(url, kafka=secured.login("operator")) as operator:
        operator.queue("kept", partitions=1, lease="1s", max_attempts=2, backoff=("1s", "1s"))
        operator.group("kept", "billing", max_members=1, members=["m"])
        operator.queue("kept-plain", partitions=1)
        operator.queue("kept-halves", partitions=1).producer_group("kept-shop", check=committed)
    (port,) = ports.choose(1, random.Random())
    ui = ("--conf", "spark.ui.enabled=true", "--conf", f"spark.ui.port={port}")

    with TrackerProcess(secured.servers, checkpoint, settings, ui) as tracker:
        tracker.wait_until_ready()
        with marq.connect(url, kafka=secured.login("app")) as broker:
            works_through(broker)
            decides(broker)
        with marq.connect(url, kafka=secured.login("operator")) as operator:
            assert operator.backend.halves.seen() == []
            operator.queue("kept-halves").delete_producer_group("kept-shop")
        pages = list(shown_by_spark(port))
        refuse_open_doors(tracker.family(), without_login={port})
        started_as = list(command_lines(tracker.family()))
        written = [path for path in checkpoint.rglob("*") if path.is_file()]
        scratch = checkpoint / "scratch"
        open_to_others = [path for path in written if scratch not in path.parents]
        secrets = [path for path in open_to_others if password.encode() in path.read_bytes()]
        rights = scratch.stat().st_mode & 0o777
        for lacks, said in LACKS.items():
            single = [each for right in roles.tracker() for each in right.singly()]
            secured.allow("tracker", *(each for each in single if str(each) != lacks))
            with marq.connect(url, kafka=secured.login("app")) as broker:
                queue = broker.queue("kept-plain")  # of which no group has to read anything
                queue.send(b"to be trimmed")
                queue.receive(wait="60s")[0].ack().result(30)
            tracker.wait_until_told(said, SOON_S)
        code = tracker.wait()

    assert code == 2  # the last one is a right without which there is nothing to do
    assert not [line for line in started_as if password in line]
    assert len(pages) > len(PAGES) and not [page for page in pages if password in page]
    assert password not in tracker.log.read_text()
    assert open_to_others and not secrets
    assert rights == 0o700


LACKS = {
    "DELETE on topic *": "it takes DELETE on topic 'kept-plain'",
    "WRITE on topic *": "it takes WRITE on topic 'marq.",
}
"""What a tracker that runs is told of. The last one ends it."""


def works_through(broker: marq.Broker) -> None:
    """All that an application does: redelivery, dead letter, redrive, delay, ordered group."""
    queue = broker.queue("kept")
    queue.send(b"later", delay="11s")
    queue.send(b"1", key="k")
    first, again = queue.receive(wait="60s"), queue.receive(wait="60s")
    again[0].reject("no").result(30)
    assert eventually(lambda: bool(queue.dead_letters.list()), 60)
    assert eventually(lambda: queue.stats().dead == 1, 60)
    assert queue.dead_letters.redrive() == 1
    both = [queue.receive(wait="60s", lease="5m") for _ in range(2)]
    found = {each.payload: each for some in both for each in some}
    assert [each.attempt for each in (*first, *again)] == [1, 2]
    assert found.keys() == {b"1", b"later"}
    for each in found.values():
        each.ack().result(30)
    got: list[bytes] = []
    with broker.group("kept", "billing").consume("m", lambda each: take(each, got)):
        assert eventually(lambda: {b"1", b"later"} <= set(got), 60)


def committed(half_id: str, payload: bytes) -> marq.Check:
    return marq.COMMIT


def decides(broker: marq.Broker) -> None:
    """All that an application does with half messages: it decides one, and is asked about one."""
    queue = broker.queue("kept-halves")
    shop = queue.producer_group("kept-shop", check=committed, check_after="1s", timeout="1s")
    with shop.half(b"decided"):
        pass
    shop.half(b"gone").rollback().result(30)
    shop.half(b"asked")
    found = [queue.receive(wait="60s")[0] for _ in range(2)]
    assert {each.payload for each in found} == {b"decided", b"asked"}
    for each in found:
        each.ack().result(30)
    assert eventually(lambda: queue.stats().halves == 0, 60)


def take(delivery: Any, got: list[bytes]) -> None:
    got.append(delivery.payload)
    delivery.ack()


def shown_by_spark(port: int) -> Iterator[str]:
    """What Spark's pages, and its answers to programs, tell whoever asks."""
    api = f"http://127.0.0.1:{port}/api/v1/applications"
    (about,) = json.loads(page(api))
    for name in PAGES:
        yield page(f"http://127.0.0.1:{port}/{name}/")
    for question in ("environment", "sql?details=true&planDescription=true", "jobs", "stages"):
        yield page(f"{api}/{about['id']}/{question}")


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


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
