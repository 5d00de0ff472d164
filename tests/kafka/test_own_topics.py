"""marq's own topics: made where they are missing, and never so that something is forgotten."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import marq
from marq import embedded
from marq.core import names
from marq.core.messages.stored import is_void
from marq.core.names import DEFAULT
from marq.errors import ConfigError
from marq.kafka.backend import Kafka
from marq.kafka.client import config
from marq.kafka.client.record import stored
from marq.kafka.cluster import topics
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.topics import lay_out
from tests.e2e.kafka_process import eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka]

OWN = (names.CATALOG, names.MARKERS, names.DELAYED, names.STATS)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of its own: nobody else's topics are to be deleted."""
    runtime = embedded.start(tmp_path_factory.mktemp("own"), tracker=False, parent=os.getpid())
    yield runtime.bootstrap_servers
    runtime.stop()


@pytest.fixture
def admin(servers: str, monkeypatch: pytest.MonkeyPatch) -> Admin:
    monkeypatch.setattr(topics, "_APPEAR_S", 0.5)
    found = Admin(config.common(servers, {}), 10.0)
    without(found, *OWN)
    return found


def without(admin: Admin, *missing: str) -> None:
    admin.delete(*missing)
    assert eventually(lambda: not set(missing) & set(admin.topics()))


def partitions(admin: Admin) -> dict[str, int]:
    return {name: about[1] for name, about in admin.describe_all(OWN).items() if about}


def test_whoever_comes_first_makes_them_all_as_large_as_it_is_set_to(admin: Admin) -> None:
    assert lay_out(admin, 1, DEFAULT, 6) == 6

    assert partitions(admin) == dict(zip(OWN, (1, 6, 6, 1), strict=True))
    assert lay_out(admin, 1, DEFAULT, 4, by_tracker=True) == 6


@pytest.mark.parametrize("missing", [names.STATS, names.MARKERS, names.DELAYED])
def test_a_tracker_makes_the_one_that_is_missing_and_a_client_says_which(
    admin: Admin, servers: str, missing: str
) -> None:
    admin.create([(name, 3, topics._QUEUE) for name in DEFAULT.hold_logs], 1)
    admin.create([(name, *topics._own(DEFAULT, 4)[name]) for name in OWN], 1)
    admin.wait_until_led(*OWN)
    without(admin, missing)

    with pytest.raises(ConfigError, match=f"{missing} is missing .*: start a tracker"):
        marq.connect(f"kafka://{servers}")
    assert lay_out(admin, 1, DEFAULT, 4, by_tracker=True) == 3

    assert partitions(admin) == dict(zip(OWN, (1, 3, 3, 1), strict=True))
    found = admin.settings(missing)
    wanted = topics._own(DEFAULT, 4)[missing][1]
    assert {name: found[name] for name in wanted} == wanted
    with marq.connect(f"kafka://{servers}") as broker:
        assert broker.queues() == []


def test_no_empty_catalog_is_made_beside_messages_that_are_open(admin: Admin, servers: str) -> None:
    with marq.connect(f"kafka://{servers}") as broker:
        broker.queue("jobs").send(b"x", delay="1h")
    without(admin, names.CATALOG)

    with pytest.raises(ConfigError, match=r"marq\.delayed has records of messages"):
        lay_out(admin, 1, DEFAULT, 4, by_tracker=True)

    without(admin, names.MARKERS, names.DELAYED)
    assert lay_out(admin, 1, DEFAULT, 4, by_tracker=True) == 4


def test_what_is_parked_in_a_log_that_was_made_again_is_not_taken_for_purged(
    admin: Admin, servers: str
) -> None:
    with marq.connect(f"kafka://{servers}") as broker:
        for number in range(20):
            broker.queue("first").send(b"lost with its log", key=str(number), delay="1h")
        broker.queue("second")  # nothing that was parked before it was made is for it
    without(admin, names.DELAYED)
    lay_out(admin, 1, DEFAULT, 4, by_tracker=True)

    with marq.connect(f"kafka://{servers}") as broker:
        sent = broker.queue("second").send(b"later", delay="1h")
        kafka = broker.backend
        assert isinstance(kafka, Kafka)
        spans = {sent.partition: (sent.offset, sent.offset + 1)}
        (record,) = (stored(each) for each in kafka.reader.read(names.DELAYED, spans))
        purged = kafka.definition("second").purged

    assert (record.value, sent.offset) == (b"later", 0)
    assert purged[f"{names.DELAYED}:{sent.partition}"] > 0
    assert not is_void(record, purged)


def test_hold_logs_that_someone_altered_are_refused(admin: Admin) -> None:
    lay_out(admin, 1, DEFAULT, 4)
    without(admin, names.DELAYED)
    admin.create([(names.DELAYED, 5, topics._QUEUE)], 1)
    admin.wait_until_led(names.DELAYED)

    with pytest.raises(ConfigError, match="Neither may be altered"):
        lay_out(admin, 1, DEFAULT, 4, by_tracker=True)
