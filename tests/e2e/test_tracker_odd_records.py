"""Records that nobody who means well writes, before the tracker: each comes back or is a dead
letter, and everyone else's time goes on."""

from __future__ import annotations

from typing import Any

import pytest

import marq
from marq.core import names
from marq.core.markers import codec
from marq.core.markers.marker import Claim, ClaimId, Source
from marq.core.markers.wire import WireWriter
from marq.core.messages import header
from marq.core.messages.header import Meta
from marq.kafka.backend import Kafka
from marq.kafka.client.record import UNREADABLE
from tests.conftest import Tracked
from tests.e2e.kafka_process import eventually
from tests.e2e.tracker_scene import Scene
from tests.hostile.wire import Raw, Socket

pytestmark = [
    pytest.mark.java,
    pytest.mark.kafka,
    pytest.mark.e2e,
    pytest.mark.timeout(600),
]
ENDLESS = (1 << 64) - 1


def forged(tag: int, number: int, queue: str = "") -> bytes:
    """A header in which this number is no marq's."""
    out = WireWriter(header.encode(Meta(queue=queue)))
    out.numbers((tag << 1, number))
    return out.bytes()


def odd_messages(queue: str) -> list[Raw]:
    latin = ("größe".encode("latin-1"), b"1")
    nowhere = header.encode(Meta(origin=f"{queue}:0:zzz"))
    return [
        Raw(b"a name in Latin-1", headers=(latin, (b"a", b"b"))),
        Raw(b"from a place that is none", headers=((b"marq", nowhere),)),
        Raw(b"no attempt", headers=((b"marq", forged(1, 0)),)),
        *(
            Raw(b"field %d is endless" % tag, headers=((b"marq", forged(tag, ENDLESS)),))
            for tag in (1, 2, 3, 6, 8)
        ),
    ]


def forged_claims(source: Source) -> list[Raw]:
    """Claims that lapse at once, of what is not there."""
    claim = Claim(ClaimId(1, 1), source, 0, ((0, 3),), 0)
    plain = codec.encode(claim)
    name = source.queue.encode()
    return [
        Raw(plain.replace(bytes((len(name),)) + name, b"\0")),
        Raw(plain.replace(name, b"\n" * len(name))),
        *(
            Raw(codec.encode(Claim(ClaimId(1, number), each, 0, ((0, 3),), 0)))
            for number, each in enumerate(
                (source._replace(partition=99), source._replace(queue="never-was")), 2
            )
        ),
    ]


def test_odd_records_come_back_like_others_and_nobody_else_waits(
    scene: Scene, tracked: Tracked
) -> None:
    failures = tracked.tracker.metrics()["marq_tracker_failures_total"]
    queue, other = (scene.queue(lease="1s", partitions=1) for _ in range(2))
    queue.purge()
    kafka = scene.broker.backend
    assert isinstance(kafka, Kafka)
    topic_id = kafka.admin.topic_id(queue.name)
    assert topic_id is not None
    messages = odd_messages(queue.name)
    with Socket(scene.servers) as socket:
        socket.produce(queue.name, 0, messages)
        endless = Raw(b"", headers=((b"marq", forged(3, ENDLESS, queue.name)),))
        socket.produce(names.DELAYED, 0, [endless])
        socket.produce(names.MARKERS, 0, forged_claims(Source(topic_id, 0, queue.name, "", 0)))
    scene.leave(queue, len(messages))
    sent = other.send(b"everyone else's")
    scene.leave(other, 1)

    found: dict[bytes, marq.Delivery[Any]] = {}

    def all_came_back() -> bool:
        for delivery in queue.receive(10, "1s"):
            if delivery.attempt > 1:
                found[delivery.raw] = delivery
            delivery.ack()
        return found.keys() == {raw.value for raw in messages}

    (again,) = other.receive(1, "60s")
    assert (again.message_id, again.attempt) == (sent.message_id, 2)
    again.ack().result(10)
    assert eventually(all_came_back, 60), set(found)
    assert found[b"a name in Latin-1"].headers == {UNREADABLE: b"a header's name is not UTF-8"}
    assert tracked.tracker.metrics()["marq_tracker_failures_total"] == failures
