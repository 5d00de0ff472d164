"""An entry from the future in the real catalog: what it is about is left alone, others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import marq
from marq import embedded
from marq.cli import app
from marq.core import names
from marq.core.names import DEFAULT
from marq.errors import ConfigError
from marq.kafka.backend import Kafka
from marq.kafka.tracker.act.tools import Tools
from tests.e2e.kafka_fixtures import Connect, NewQueue, new_name
from tests.e2e.kafka_process import eventually
from tests.kafka.catalog_records import by_a_newer_one, write
from tests.kafka.test_acting import Abandoned

pytestmark = [pytest.mark.java, pytest.mark.kafka]

ADVICE = "was made by a newer marq: upgrade"


@pytest.fixture
def abandoned(backend: Kafka, new_queue: NewQueue) -> Abandoned:
    return Abandoned(backend, new_queue(partitions=1, lease="1s"))


@pytest.mark.parametrize("definition", [{"colour": "red"}, {"lane": True}, {"priorities": 3}])
def test_act_holds_the_messages_of_such_a_queue_and_buries_none(
    kafka: embedded.Runtime, backend: Kafka, abandoned: Abandoned, definition: object
) -> None:
    name = abandoned.queue.name
    by_a_newer_one(backend, name, definition=definition)
    tools = Tools(kafka.bootstrap_servers, {}, DEFAULT)

    report = abandoned.act(tools)
    abandoned.tick()
    again = abandoned.concluded()

    assert (report.put_off, report.fates) == (1, {})
    assert again.overdue == []  # held
    open_now = sum(count.begun + count.held + count.fetched for count in again.sources
                   if count.queue == name)  # fmt: skip
    assert open_now == 1
    assert backend.admin.ends(names.dead_letters(name), 1) == [0]


def test_an_executor_follows_the_catalog_also_what_it_cannot_read(
    kafka: embedded.Runtime, backend: Kafka, new_queue: NewQueue
) -> None:
    tools = Tools(kafka.bootstrap_servers, {}, DEFAULT)
    known = tools.catalog()
    name = new_queue().name
    assert known.queue(name) is None
    assert tools.catalog().queue(name)
    value = by_a_newer_one(backend, name)
    unknown = by_a_newer_one(backend, f"{name}/tenant", kind="lane-queue")

    found = tools.catalog()

    assert found.is_newer(name)
    assert found.is_newer(f"{name}/tenant")
    assert {value, unknown} <= {each.entry.value for each in found.kept()}


def test_whoever_opens_changes_or_empties_such_a_queue_is_told_to_upgrade(
    broker: marq.Broker, backend: Kafka, connect: Connect, new_queue: NewQueue
) -> None:
    queue, other = new_queue(partitions=1), new_queue(partitions=1)
    by_a_newer_one(backend, queue.name)

    for refused in (
        lambda: connect().queue(queue.name),
        lambda: queue.update(lease="1m"),
        lambda: queue.pause(),
        lambda: queue.purge(),
        lambda: broker.delete_queue(queue.name),
        lambda: queue.stats(),
        lambda: queue.dead_letters.list(),
        lambda: queue.dead_letters.receive(),
    ):
        with pytest.raises(ConfigError, match=ADVICE):
            refused()

    assert queue.name in broker.queues()
    assert backend.admin.topic_id(queue.name) is not None
    other.send(b"x")
    assert [each.payload for each in other.receive(1, "10s")] == [b"x"]


def test_receivers_and_workers_of_it_end_with_that_sentence(
    broker: marq.Broker, backend: Kafka, new_queue: NewQueue
) -> None:
    pulled, handled = new_queue(partitions=1), new_queue(partitions=1)
    handled.handler()(lambda delivery: None)
    pulled.send(b"x")
    assert len(pulled.receive(1, "10s")) == 1

    with pytest.raises(ConfigError, match=ADVICE), broker.worker(handled) as worker:
        by_a_newer_one(backend, handled.name)
        by_a_newer_one(backend, pulled.name)
        worker.wait()

    def is_told() -> bool:
        try:
            return bool(pulled.receive(1, "100ms")) and False
        except ConfigError as error:
            return ADVICE in str(error)

    assert eventually(is_told)


def test_the_command_line_says_so_and_shows_the_others(
    kafka: embedded.Runtime, backend: Kafka, new_queue: NewQueue, tmp_path: Path
) -> None:
    newer, other = new_queue().name, new_queue().name
    by_a_newer_one(backend, newer)

    def run(*words: str) -> Any:
        url = f"kafka://{kafka.bootstrap_servers}"
        return CliRunner().invoke(app, [*words, "--url", url])

    listed, shown, deleted = (
        run("queue", "ls", "--json"),
        run("queue", "show", newer),
        run("queue", "delete", newer, "--yes"),
    )

    assert other in listed.stdout
    assert newer in listed.stderr
    assert [each.exit_code for each in (listed, shown, deleted)] == [0, 2, 2]
    assert ADVICE in shown.stderr and ADVICE in deleted.stderr
    assert run("queue", "show", other).exit_code == 0


def test_no_record_stops_a_reader_of_the_catalog(
    backend: Kafka, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    write(
        backend,
        None,
        b"",
        b"{}",
        b"\xff\x00",
        b"[" * 900_000,
        b'{"kind":"queue","name":"deep","version":1,"definition":' + deep + b"}",
        b'{"kind":"queue","name":"marq.markers","version":1,"definition":{}}',
        b'{"kind":"queue","name":"' + b"n" * 900_000 + b'","version":1}',
        b'{"kind":"snapshot","name":"x","as_of":99999999999,"part":0,"parts":1,"entries":[]}',
        b'{"kind":"snapshot","name":"x","as_of":"never"}',
    )

    follower, starter, name = backend.catalog(), connect(), new_name()

    assert "marq.markers" not in set(follower.queues())
    assert list(starter.backend.catalog().queues()) == list(follower.queues())
    assert starter.queue(name).name == name
    logged = [each.offset for each in caplog.records if each.msg == "not a catalog entry"]  # type: ignore[attr-defined]
    assert len(logged) >= 10
