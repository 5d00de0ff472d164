"""What was not taken is told by whoever flushes or closes; a closed broker does nothing more."""

from __future__ import annotations

import pytest

from marq.errors import ConfigError, DeliveryError
from tests.e2e.kafka_fixtures import Connect, NewQueue, new_name

pytestmark = [pytest.mark.java, pytest.mark.kafka]


def test_a_flush_tells_of_messages_that_were_refused(new_queue: NewQueue, connect: Connect) -> None:
    queue = new_queue(partitions=1)
    queue.send(b"taken")
    connect().delete_queue(queue.name)
    queue.send_nowait(b"refused")

    with pytest.raises(ConfigError, match="1 sent messages are not in the log: there is no queue"):
        queue.flush()

    queue.flush()


def test_after_its_broker_is_closed_nothing_is_received_settled_or_flushed(
    connect: Connect,
) -> None:
    broker = connect()
    queue = broker.queue(new_name(), partitions=1)
    queue.send_many([b"1", b"2"])
    first, second = queue.receive(1, "20s") + queue.receive(1, "20s")
    first.ack()

    broker.close()

    with pytest.raises(DeliveryError, match="the broker was closed"):
        second.ack()
    for call in (queue.receive, queue.flush, queue.stats):
        with pytest.raises(ConfigError, match="closed: connect again"):
            call()
