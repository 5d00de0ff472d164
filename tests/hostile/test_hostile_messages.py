"""Whatever a producer writes to a queue, its workers go on and good messages are handled."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import marq
from marq import embedded
from marq.cli import app
from tests.e2e.kafka_process import eventually
from tests.hostile.effort import SEEDS, odd
from tests.hostile.stage import PARTITIONS, PATIENCE_S, Stage

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.timeout(600)]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_written_to_a_queue_its_good_messages_are_handled(
    kafka: embedded.Runtime, seed: int
) -> None:
    with Stage(kafka.bootstrap_servers, seed) as stage:
        stage.send_odd(odd(60))

        with stage.working() as alive:
            stage.send_odd(odd(30))
            stage.send_good_in_transaction(5)
            stage.attack.again(stage.queue.name, PARTITIONS)
            stage.send_good(2)

            stage.check(alive)
        look_at(stage)


def look_at(stage: Stage) -> None:
    """The command line shows what is odd, and breaks nobody's terminal."""
    url = f"kafka://{stage.servers}"
    for words in (["peek"], ["peek", "--json"], ["receive", "--json"], ["queue", "show"]):
        found = CliRunner().invoke(app, [*words, stage.queue.name, "--url", url])
        assert found.exit_code == 0, (words, found.exception, found.output)
        if words[-1] == "--json":
            [json.loads(line) for line in found.stdout.splitlines()]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_written_to_the_topics_of_an_ordered_group_it_handles_good_messages(
    kafka: embedded.Runtime, seed: int
) -> None:
    with Stage(kafka.bootstrap_servers, seed) as stage:
        group = stage.broker.group(stage.queue.name, "g", max_members=2, members=["m1"])
        data = f"{stage.queue.name}.group.g"
        stage.attack.write(
            stage.hostile.controls(f"{data}.control", f"{data}.leases"), 1, stage.hostile
        )
        stage.attack.write(stage.hostile.messages(odd(30), data), 2, stage.hostile)
        stage.send_odd(odd(40))
        handled: set[bytes] = set()

        def handle(delivery: marq.GroupDelivery) -> None:
            handled.add(delivery.raw)
            delivery.ack()

        with group.consume("m1", handle) as instance:
            stage.send_good(5)
            eventually(lambda: stage.good <= handled or instance.ended, PATIENCE_S, 0.2)
            assert not instance.wait(0)
            about = f"seed {seed}: {sorted(stage.good - handled)[:10]}, {group.info()}"

        assert stage.good <= handled, about
        assert not stage.fallen
