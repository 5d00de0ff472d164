"""`marq status --url`: what can be told of a cluster's tracker from outside."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

import marq
from marq import embedded
from marq.cli import app
from marq.cli.cluster import warn_if_nobody_keeps_time
from marq.core.names import DEFAULT
from marq.kafka.client import config
from marq.kafka.cluster.stats_log import FEATURES, StatsWriter

pytestmark = [pytest.mark.java, pytest.mark.kafka]


@contextmanager
def signs_of_life(servers: str) -> Iterator[None]:
    """What housekeeping writes while a tracker keeps time."""
    writer = StatsWriter(config.producer(servers, {}, 0), config.reader(servers, {}), DEFAULT.stats)
    begun, stopping = threading.Event(), threading.Event()

    def write() -> None:
        at_ms = 1_700_000_000_000
        while not stopping.wait(0.2):
            at_ms += 200
            writer.write({}, at_ms, {})
            begun.set()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    assert begun.wait(60)
    yield
    stopping.set()
    thread.join()


def status(servers: str, *options: str) -> str:
    result = CliRunner().invoke(app, ["status", "--url", f"kafka://{servers}", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_cluster_s_tracker_is_known_by_its_signs_of_life(kafka: embedded.Runtime) -> None:
    servers = kafka.bootstrap_servers
    marq.connect(f"kafka://{servers}").close()

    with signs_of_life(servers):
        alive, shown = json.loads(status(servers, "--json")), status(servers)
    dead, last = json.loads(status(servers, "--json")), status(servers)

    assert alive["tracker"]["keeps_time"] is True
    assert alive["tracker"]["features"] == sorted(FEATURES)
    assert "the tracker keeps time" in shown
    assert dead["tracker"]["keeps_time"] is False
    assert dead["tracker"]["last_sign"].startswith("2023-11-14T")
    assert "no tracker keeps time; the last sign of life is of 2023-11-14T" in last


def test_a_worker_that_nobody_keeps_time_for_says_so(
    kafka: embedded.Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    servers = kafka.bootstrap_servers

    with marq.connect(f"kafka://{servers}") as broker, signs_of_life(servers):
        warn_if_nobody_keeps_time(broker, 60)
    assert "no tracker keeps time" not in caplog.messages

    with marq.connect(f"kafka://{servers}") as broker:
        warn_if_nobody_keeps_time(broker, 1)
    warn_if_nobody_keeps_time(broker, 1)  # closed meanwhile
    with marq.connect("memory://") as broker:
        warn_if_nobody_keeps_time(broker, 1)

    [record] = [each for each in caplog.records if each.message == "no tracker keeps time"]
    assert "marq tracker --url" in vars(record)["to_do"]


def test_only_a_cluster_can_be_asked() -> None:
    result = CliRunner().invoke(app, ["status", "--url", "memory://"])

    assert result.exit_code == 2
    assert "only a cluster has a tracker" in result.stderr


def test_a_cluster_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARQ_CONNECT_TIMEOUT", "1s")

    result = CliRunner().invoke(app, ["status", "--url", "kafka://127.0.0.1:9"])

    assert result.exit_code == 1
    assert "no broker answers" in result.stderr
