"""Whose a message is, and where what comes of it goes."""

from __future__ import annotations

import pytest

from marq.core.catalog.definitions import DEAD_LETTERS, Catalog, Entry, QueueDefinition
from marq.core.subject import Subject

DEFINITION = QueueDefinition(lease_ms=7_000)


def test_copies_of_a_queue_s_message_go_to_its_topic_and_its_letters_beside_it() -> None:
    subject = Subject("orders")

    assert (subject.queue, subject.copies, subject.letters) == ("orders", "orders", "dlq.orders")


def test_a_letter_goes_back_to_where_it_was_read() -> None:
    assert Subject("dlq.orders").redriven == "orders"
    assert Subject("dlq.orders.sub.audit").redriven == "orders.sub.audit"


@pytest.mark.parametrize("topic", ["orders", "dlq.orders", "orders.p1", "dlq.orders.sub.audit"])
def test_all_that_belongs_to_a_queue_says_so_by_its_name(topic: str) -> None:
    assert Subject(topic).queue == "orders"


def test_what_a_subscription_retries_reaches_no_other_reader() -> None:
    subject = Subject("orders", "audit")

    assert (subject.copies, subject.letters) == ("orders.sub.audit", "dlq.orders.sub.audit")
    assert subject.queue == "orders"


def test_a_subscription_s_markers_lie_with_those_of_the_topic_it_reads() -> None:
    places = {Subject("orders", name).markers_partition(3, 7) for name in ("", "audit", "billing")}

    assert len(places) == 1


def test_the_queue_s_definition_counts_and_dead_letters_have_their_own() -> None:
    catalog = Catalog()
    catalog.apply(Entry("queue", "orders", 1, DEFINITION))

    assert catalog.definition_of(Subject("orders")) == DEFINITION
    assert catalog.definition_of(Subject("dlq.orders")) is DEAD_LETTERS
    assert catalog.definition_of(Subject("gone")) is None
