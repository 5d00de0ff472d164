"""An inbox whose pump fetches nothing."""

from __future__ import annotations

import threading

from marq.backend import Handing
from marq.core.catalog.definitions import QueueDefinition
from marq.kafka.receiving.inbox import KafkaInbox


class NothingComes:
    def turn(self, waits: bool = False) -> bool:
        return False

    def call(self) -> None: ...


def is_free(lock: threading.Condition) -> bool:
    """Whether another thread would get it."""
    found: list[bool] = []

    def try_it() -> None:
        found.append(lock.acquire(blocking=False))
        if found[0]:
            lock.release()

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    return found[0]


def test_the_catalog_is_never_read_while_others_wait_for_the_inbox() -> None:
    free: list[bool] = []

    def definition() -> QueueDefinition:
        free.append(is_free(inbox.changed))
        return QueueDefinition()

    inbox = KafkaInbox(
        "orders",
        definition,
        now_ms=lambda: 0,
        write=lambda copy: None,  # type: ignore[arg-type, return-value]
        random=lambda: 0.0,
        flush=lambda desk: None,
    )

    assert inbox.take(1, 0.05, Handing(alone=False), NothingComes()) == []

    assert len(free) >= 2 and all(free)
