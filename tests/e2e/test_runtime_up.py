"""`marq up`, `down` and `status` as real processes with real brokers, some of them killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from marq import embedded
from marq.embedded import broker, files, layout
from marq.embedded.jvm import jars, java
from tests.e2e.runtime_command import Marq, directory, eventually, marq

__all__ = ["directory", "marq"]
pytestmark = [pytest.mark.java, pytest.mark.e2e]


def make_topic(servers: str, name: str, copies: int) -> None:
    topic = NewTopic(name, num_partitions=1, replication_factor=copies)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([topic])[name].result(30)


def min_in_sync(servers: str, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": servers})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    settings = admin.describe_configs([resource])[resource].result(30)
    return int(settings["min.insync.replicas"].value)


def produce(servers: str, topic: str, value: bytes) -> None:
    """Returns when as many brokers as must have it have it."""
    outcomes: list[object] = []
    settings = {"bootstrap.servers": servers, "acks": "all", "log_level": 0}
    producer = Producer({**settings, "message.timeout.ms": 60_000})
    producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(60)
    assert outcomes == [None]


def contents(servers: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "test", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


def broker_pids(directory: Path) -> list[int]:
    return [each.pid for each in embedded.status(directory).brokers if each.pid]


def test_a_killed_broker_of_three_is_reported_and_restarted_and_produce_resumes(
    marq: Marq, directory: Path
) -> None:
    up = marq("up", "--no-tracker", "--brokers", 3, "--data", directory)
    servers = up.wait_for("ready at").split()[-1]
    make_topic(servers, "orders", copies=3)
    produce(servers, "orders", b"before")
    assert min_in_sync(servers, "orders") == 2
    victim = embedded.status(directory).brokers[1]
    assert victim.pid is not None

    os.kill(victim.pid, signal.SIGKILL)

    up.wait_for(f"broker 2 (pid {victim.pid}) was ended by SIGKILL", within=60)
    up.wait_for("INFO", within=60)  # the end of its log
    produce(servers, "orders", b"after")
    up.wait_for("broker 2 started again")
    assert eventually(lambda: embedded.status(directory).status == "running", within=60)
    assert [each.restarts for each in embedded.status(directory).brokers] == [0, 1, 0]
    assert contents(servers, "orders", 2) == [b"before", b"after"]
    pids = broker_pids(directory)
    assert up.end() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_messages_and_the_bootstrap_servers_survive_down_and_up(
    marq: Marq, directory: Path
) -> None:
    first = marq("up", "--no-tracker", "--detach", "--json", "--data", directory)
    servers = json.loads(first.wait_for("{"))["bootstrap_servers"]
    assert first.process.wait(60) == 0
    make_topic(servers, "orders", copies=1)
    produce(servers, "orders", b"kept")

    marq("down", "--data", directory).wait_for("stopped")
    assert embedded.status(directory).status == "stopped"
    again = marq("up", "--no-tracker", "--detach", "--json", "--data", directory)

    assert json.loads(again.wait_for("{"))["bootstrap_servers"] == servers
    assert contents(servers, "orders", 1) == [b"kept"]
    refused = marq("up", "--brokers", 3, "--data", directory)
    assert "made with 1 broker(s), not 3" in refused.wait_for("marq:")
    assert refused.process.wait(60) == 2


def test_of_two_ups_at_once_one_starts_and_the_other_joins(marq: Marq, directory: Path) -> None:
    both = [marq("up", "--no-tracker", "--detach", "--json", "--data", directory) for _ in range(2)]

    answers = [json.loads(up.wait_for("{")) for up in both]

    assert sorted(answer["joined"] for answer in answers) == [False, True]
    assert len({answer["bootstrap_servers"] for answer in answers}) == 1
    assert [up.process.wait(60) for up in both] == [0, 0]
    assert len(broker_pids(directory)) == 1
    joined = marq("up", "--data", directory)
    joined.wait_for("already running, joined it")
    assert joined.process.wait(60) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties children to their parent")
def test_brokers_do_not_outlive_a_killed_foreground_up_and_the_next_up_works(
    marq: Marq, directory: Path
) -> None:
    up = marq("up", "--no-tracker", "--data", directory)
    servers = up.wait_for("ready at").split()[-1]
    (pid,) = broker_pids(directory)

    up.end(signal.SIGKILL)

    assert eventually(lambda: not Path(f"/proc/{pid}").exists(), within=60)
    assert embedded.status(directory).status == "stale"
    again = marq("up", "--no-tracker", "--detach", "--data", directory)
    assert servers in again.wait_for("ready at")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties children to their parent")
def test_brokers_do_not_outlive_a_killed_detached_supervisor(directory: Path) -> None:
    embedded.start(directory, tracker=False)
    supervisor, (pid,) = embedded.status(directory).supervisor_pid, broker_pids(directory)
    assert supervisor is not None

    os.kill(supervisor, signal.SIGKILL)

    assert eventually(lambda: embedded.status(directory).status == "stale", within=60)
    assert eventually(lambda: not Path(f"/proc/{pid}").exists(), within=60)


def test_a_runtime_that_was_started_for_a_process_ends_with_it(directory: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as parent:
        embedded.start(directory, tracker=False, parent=parent.pid)
        (pid,) = broker_pids(directory)

        parent.kill()

    assert eventually(lambda: embedded.status(directory).status == "stopped", within=30)
    assert not Path(f"/proc/{pid}").exists()


def test_formatting_that_was_killed_half_way_is_done_again(tmp_path: Path) -> None:
    home = files.RuntimeHome(tmp_path)
    made = layout.settle(home, layout.WantedLayout(1, None), random.Random())
    home.broker(1).joinpath("format-killed", "data").mkdir(parents=True)

    broker.format_storage(broker.Kit(java.find(), jars.resolve(), home, made))

    assert [entry.name for entry in home.broker(1).iterdir()] == ["data"]
    assert "node.id=1" in home.data(1).joinpath("meta.properties").read_text()


def test_a_broker_that_cannot_start_is_given_up_with_its_last_lines(
    marq: Marq, directory: Path
) -> None:
    home = files.RuntimeHome(directory)
    directory.mkdir()
    made = layout.settle(home, layout.WantedLayout(1, None), random.Random())
    home.data(1).mkdir(parents=True)
    meta = f"version=1\ncluster.id={made.cluster_id}\nnode.id=7\n"
    home.data(1).joinpath("meta.properties").write_text(meta)

    up = marq("up", "--data", directory)

    up.wait_for("starting it again in 0.5 s")
    up.wait_for("quick end in a row")
    up.wait_for("Stored node id 7 doesn't match", within=60)
    assert up.process.wait(30) == 1
    found = embedded.status(directory)
    assert found.status == "stopped"
    assert "Stored node id 7 doesn't match" in found.failure
