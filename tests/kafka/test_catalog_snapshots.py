"""The catalog's log on a real broker: written down, trimmed, and read from where it begins."""

from __future__ import annotations

import pytest

import marq
from marq.core import names
from marq.core.catalog import snapshot as catalog_snapshot
from marq.core.catalog.definitions import Catalog
from marq.errors import QueueError
from marq.kafka.backend import Kafka
from marq.kafka.tracker.catalog_keeping import CatalogKeeping
from tests.e2e.kafka_fixtures import Connect, NewQueue
from tests.kafka.catalog_records import by_a_newer_one

pytestmark = [pytest.mark.java, pytest.mark.kafka]

FOR_EVER_MS = 1 << 60


def in_force(found: Catalog) -> dict[tuple[str, str], tuple[int, bytes]]:
    return {
        (each.entry.kind, each.entry.name): (each.made, each.entry.value) for each in found.kept()
    }


def backend_of(broker: marq.Broker) -> Kafka:
    assert isinstance(broker.backend, Kafka)
    return broker.backend


def test_whoever_starts_on_a_trimmed_log_knows_what_is_in_force(
    broker: marq.Broker,
    backend: Kafka,
    connect: Connect,
    new_queue: NewQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a slow follower, a queue, one that was deleted, one of a newer release
    follower = backend_of(connect())
    follower.catalog()
    queue, deleted, newer = new_queue(lease="7s"), new_queue(), new_queue()
    broker.delete_queue(deleted.name)
    by_a_newer_one(backend, newer.name)
    known = in_force(backend.catalog())
    monkeypatch.setattr(catalog_snapshot, "_ROOM", 499_500)  # so that it has several parts

    # When two trackers write it down and trim
    for owner in ("x", "y"):
        other = backend_of(connect())
        other.catalog()
        CatalogKeeping(other.catalog_log, other.admin, owner, 1, -FOR_EVER_MS).keep(0)
    queue.update(lease="9s")

    # Then who starts now, and who was behind, know the same
    start = backend.admin.starts(names.CATALOG, 1)[0]
    assert start > 0
    late = connect()
    for each in (backend_of(late), follower, backend):
        assert in_force(each.catalog()).keys() == known.keys()
    assert in_force(follower.catalog()) == in_force(backend.catalog())
    assert late.queue(queue.name).definition.lease_ms == 9_000
    assert backend_of(late).catalog().is_newer(newer.name)
    # A version goes on where it was: the change of one who knows less would lose.
    assert backend_of(late).catalog().version("queue", deleted.name) == 2
    late.queue(deleted.name)
    assert backend.catalog().version("queue", deleted.name) == 3


def test_a_log_whose_beginning_is_gone_is_not_taken_for_an_empty_one(
    backend: Kafka, connect: Connect, new_queue: NewQueue
) -> None:
    name = new_queue().name
    backend.catalog()
    end = backend.admin.end(names.CATALOG, 0)
    late = connect()

    backend.admin.trim({(names.CATALOG, 0): end})
    with pytest.raises(QueueError, match="what queues there are is not known"):
        late.queues()

    backend.catalog_log.write_snapshot("still knows")  # nobody else is hurt, and it heals
    assert name in late.queues()


def test_a_snapshot_is_written_only_now_and_then(backend: Kafka, new_queue: NewQueue) -> None:
    new_queue()
    backend.catalog_log.write_snapshot("x")
    before = backend.admin.end(names.CATALOG, 0)
    keeping = CatalogKeeping(backend.catalog_log, backend.admin, "x")

    new_queue()
    keeping.keep(backend.now_ms())

    assert backend.admin.end(names.CATALOG, 0) == before + 1
    assert backend.admin.starts(names.CATALOG, 1)[0] < before  # a fresh one trims nothing
