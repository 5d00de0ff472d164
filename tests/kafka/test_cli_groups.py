"""`marq group` on a real broker, from create to delete."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

import marq
from marq import embedded
from marq.cli import app
from marq.kafka.groups.log import GroupLog
from tests.e2e.kafka_fixtures import NewQueue

pytestmark = [pytest.mark.java, pytest.mark.kafka]

Run = Callable[..., str]


@pytest.fixture
def run(kafka: embedded.Runtime) -> Run:
    def command(*words: str, code: int = 0) -> str:
        url = f"kafka://{kafka.bootstrap_servers}"
        found = CliRunner().invoke(app, ["group", *words, "--url", url])
        assert found.exit_code == code, found.output
        return found.output

    return command


def told(output: str) -> Any:
    return json.loads(output.splitlines()[0])


def test_a_group_s_life(run: Run, new_queue: NewQueue) -> None:
    queue = new_queue()
    name = queue.name
    options = ("--max-members", "4", "--member", "m1", "--lease", "1s")

    assert "created" in run("create", name, "g", *options)
    assert "was there already" in run("create", name, "g", *options)
    assert "members: m1, m2" in run("add", name, "g", "m2")
    assert "members: m1" in run("drop", name, "g", "m2")

    [found] = [each for each in told(run("ls", "--json")) if each["queue"] == name]
    assert (found["group"], found["max_members"], found["members"]) == ("g", 4, ["m1"])
    about = told(run("info", name, "g", "--json"))
    assert about["members"][0]["partitions"] == [0, 1, 2, 3]
    assert about["warnings"] == ["member m1 has partitions [0, 1, 2, 3] and no active instance"]
    assert "nobody" in run("info", name, "g")
    assert "no active instance" in run("members", name, "g")

    queue.send("hello", key="k")
    delivered = told(run("consume", name, "g", "m1", "--limit", "1"))
    assert (delivered["payload"], delivered["key"], delivered["attempt"]) == ("hello", "k", 1)

    assert "members: a, b" in run("map", name, "g", "a=0,1", "b=2,3")
    assert "is mapped" in run("add", name, "g", "m1", code=2)
    assert "nobody" in run("unmap", name, "g")
    assert "has no active instance" in run("step-down", name, "g", "m1", code=1)
    assert "say --yes" in run("delete", name, "g", code=2)
    assert "deleted" in run("delete", name, "g", "--yes")
    assert "has no group 'g'" in run("info", name, "g", code=2)


def test_filters_and_mappings_are_read_as_they_are_written(run: Run, new_queue: NewQueue) -> None:
    name = new_queue().name
    run("create", name, "g", "--max-members", "2", "--filter", "a.*.*:2,1", "--kind", "elastic")

    about = told(run("info", name, "g", "--json"))

    assert about["config"]["partitioning_filters"] == [
        {"filter": "a.*.*", "partitioning_wildcards": [2, 1]}
    ]
    assert "write it like" in run("map", name, "g", "a:1", code=2)
    assert "write it like" in run(
        "create", name, "h", "--max-members", "2", "--filter", "*:x", code=2
    )


def test_a_group_whose_creation_was_cut_short_is_listed_and_can_be_deleted(
    run: Run, new_queue: NewQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_queue().name
    run("create", name, "whole", "--max-members", "2")
    with monkeypatch.context() as killed:
        killed.setattr(GroupLog, "change", lambda log, record: sys.exit(9))
        run("create", name, "half", "--max-members", "2", code=9)

    listed = [line for line in run("ls", "--json").splitlines() if line.startswith("[")]

    found = {each["group"]: each for each in json.loads(listed[0]) if each["queue"] == name}
    assert (found["whole"]["max_members"], found["half"]["max_members"]) == (2, None)
    assert "deleted" in run("delete", name, "half", "--yes")
    assert "has no group 'half'" in run("delete", name, "half", "--yes", code=2)


def test_a_group_needs_kafka() -> None:
    with marq.connect("memory://") as broker, pytest.raises(marq.ConfigError, match="need Kafka"):
        broker.group("orders", "g", max_members=1)
