"""Messages that go at once and messages that are gathered, on a real broker."""

from __future__ import annotations

import threading

import pytest

from marq.kafka.backend import Kafka
from marq.message import Sent
from tests.e2e.kafka_fixtures import NewQueue

pytestmark = [pytest.mark.java, pytest.mark.kafka]

PATIENCE_S = 60.0


def test_what_one_thread_sends_under_a_key_stays_in_order_whichever_way_it_goes(
    new_queue: NewQueue, backend: Kafka
) -> None:
    queue = new_queue()

    for number in range(60):
        payload = str(number).encode()
        if number % 7 == 3:
            queue.send(payload, key="k")
        elif number % 7 == 5:
            queue.send_many([payload], key="k")
        else:
            queue.send_nowait(payload, key="k")
    queue.flush()

    found = backend.peek(queue.name, 100)
    assert [record.value for record in found] == [str(number).encode() for number in range(60)]


def test_many_threads_that_send_at_once_each_get_their_own_place_in_the_log(
    new_queue: NewQueue, backend: Kafka
) -> None:
    queue = new_queue()
    places: list[Sent] = []

    def send() -> None:
        for _ in range(20):
            places.append(queue.send(b"x"))

    threads = [threading.Thread(target=send, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert len({place.message_id for place in places}) == 160
    assert sum(backend.admin.ends(queue.name, 4)) == 160
