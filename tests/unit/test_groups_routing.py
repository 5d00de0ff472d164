"""Which messages go to a group, where, and as what."""

from __future__ import annotations

import pytest

from marq.core.fate import redelivery
from marq.core.messages import header
from marq.core.messages.header import Headers, Meta
from marq.core.messages.stored import Stored
from marq.core.names import DEFAULT
from marq.groups import routing
from marq.groups.config import Filter, GroupConfig
from marq.groups.names import GroupNames, group_names, of_topic

TEN = GroupConfig(10)


def stored(key: bytes | None = b"cust-42", headers: Headers = (), at_ms: int = 1_000) -> Stored:
    return Stored("orders", 3, 7, at_ms, key, b"payload", headers)


def test_a_copy_keeps_key_payload_headers_and_id() -> None:
    copy = routing.routed(stored(headers=(("h", b"1"),)), TEN, "orders.group.g", {})

    assert copy is not None
    assert (copy.topic, copy.partition) == ("orders.group.g", 3)
    assert (copy.key, copy.value) == (b"cust-42", b"payload")
    meta, headers = header.split(copy.headers)
    assert (meta.origin, meta.sent_ms, headers) == ("orders:3:7", 1_000, (("h", b"1"),))


def test_a_delay_and_a_ttl_count_from_the_first_record() -> None:
    sent = header.join(Meta(message_id="x", delay_ms=50, ttl_ms=90), ())
    copy = routing.routed(stored(headers=sent), TEN, "t", {})

    assert copy is not None
    meta = header.split(copy.headers)[0]
    assert (meta.message_id, meta.due_ms, meta.expires_ms) == ("x", 1_050, 1_090)
    assert (meta.delay_ms, meta.ttl_ms) == (0, 0)


@pytest.mark.parametrize(
    ("meta", "due_ms"),
    [(Meta(), 0), (Meta(due_ms=1_900), 1_900), (Meta(delay_ms=1 << 47), 11_000)],
    ids=["at once", "soon", "never"],
)
def test_no_message_keeps_its_partition_waiting_for_longer_than_marq_would(
    meta: Meta, due_ms: int
) -> None:
    assert routing.due_at(meta, 1_000) == due_ms


def test_what_was_purged_is_not_copied() -> None:
    assert routing.routed(stored(), TEN, "t", {"orders:3": 8}) is None
    assert routing.routed(stored(), TEN, "t", {"orders:3": 7}) is not None


@pytest.mark.parametrize("meta", [Meta(copies=1), Meta(attempt=2, copies=3, origin="orders:0:1")])
def test_what_comes_back_for_the_queue_s_own_receivers_is_not_copied(meta: Meta) -> None:
    assert routing.routed(stored(headers=header.join(meta, ())), TEN, "t", {}) is None
    # A header that is not ours says nothing, whatever it is.
    assert routing.routed(stored(headers=(("marq", b"\1\4"),)), TEN, "t", {}) is not None


def test_what_a_worker_gives_back_is_not_copied() -> None:
    given = redelivery.given_back(stored(), "orders")

    assert routing.routed(stored(headers=given.headers), TEN, "t", {}) is None


def test_a_group_s_letter_goes_back_to_its_topic_and_partition() -> None:
    died = (("marq-subject", b"cust1.x.eu"), ("__dlq.errors.group", b"orders.group.g"))
    letter = Stored("dlq.orders", 0, 9, 1_000, b"other", b"payload", died)
    filtered = GroupConfig(10, partitioning_filters=(Filter("*.x.*", (1, 2)),))

    again = routing.redriven(letter, filtered, "orders.group.g")

    assert (again.topic, again.partition, again.value) == ("orders.group.g", 5, b"payload")
    meta, headers = header.split(again.headers)
    assert (meta.copies, headers) == (0, (("marq-subject", b"cust1.x.eu"),))


def test_what_is_too_large_to_be_copied_is_a_dead_letter_of_the_group() -> None:
    letter = routing.too_large(stored(), "orders", "orders.group.g", 1_000_000)
    empty = routing.too_large(stored(), "orders", "orders.group.g", 4_100)

    assert letter is not None
    assert empty is not None
    for each, payload in ((letter, b"payload"), (empty, None)):
        assert (each.topic, each.value) == ("dlq.orders", payload)
        told = Stored(each.topic, 0, 0, 0, each.key, each.value, each.headers)
        assert redelivery.reader_of(told) == "orders.group.g"
        assert "too large for 'orders.group.g': orders:3:7" in redelivery.reason_of(told)


def test_a_message_without_a_key_goes_where_the_empty_key_goes() -> None:
    copy = routing.routed(stored(key=None), TEN, "t", {})

    assert copy is not None
    assert copy.partition == 1


def test_with_filters_the_subject_decides() -> None:
    config = GroupConfig(10, partitioning_filters=(Filter("*.x.*", (1, 2)),))
    subject = (("marq-subject", b"cust1.x.eu"),)

    copy = routing.routed(stored(headers=subject), config, "t", {})

    assert copy is not None
    assert copy.partition == 5
    assert routing.routed(stored(), config, "t", {}) is None
    assert routing.routed(stored(headers=(("marq-subject", b"y"),)), config, "t", {}) is None


def test_what_was_copied_is_not_copied_again() -> None:
    assert [routing.left_to_copy(offset, 5) for offset in (4, 5, 6)] == [False, True, True]


@pytest.mark.parametrize(
    ("meta", "found"),
    [
        (Meta(origin="o", sent_ms=1), False),
        (Meta(message_id="x", origin="o", sent_ms=1), False),
        (Meta(origin="o", sent_ms=1, due_ms=5), True),
        (Meta(origin="o", sent_ms=1, expires_ms=5), True),
        (Meta(origin="o", sent_ms=1, delay_ms=5), True),
        (Meta(origin="o", sent_ms=1, ttl_ms=5), True),
        (Meta(origin="o", sent_ms=1, copies=1), True),
        (Meta(origin="o", sent_ms=1, attempt=2, copies=1), True),
    ],
)
def test_a_header_that_says_no_more_is_known_by_its_first_bytes(meta: Meta, found: bool) -> None:
    assert routing.says_more(header.join(meta, ())[0]) is found


@pytest.mark.parametrize("origin", ["orders:3:7", "shöp:0:1"])
def test_the_header_of_a_plain_copy_is_the_one_the_codec_makes(origin: str) -> None:
    found = routing.plain_header(origin, 1_700_000_000_000)

    assert found == header.encode(Meta(origin=origin, sent_ms=1_700_000_000_000))


def test_a_first_header_of_that_name_that_is_not_ours_stays_the_user_s() -> None:
    copy = routing.routed(stored(headers=(("marq", b"mine"),)), TEN, "t", {})

    assert copy is not None
    meta, headers = header.split(copy.headers)
    assert (meta.origin, headers) == ("orders:3:7", (("marq", b"mine"),))


def test_other_headers_say_no_more() -> None:
    assert not routing.says_more(("other", b"\1\2"))
    assert not routing.says_more(("marq", None))


def test_the_names_of_a_group() -> None:
    names = group_names("shop.orders", "billing", DEFAULT)

    assert names.data("elastic") == "shop.orders.group.billing"
    assert names.data("static") == "shop.orders"
    assert names.producer("m1") == "marq.group.shop.orders.billing.m.m1"
    assert names.copier(3) == "marq.group.shop.orders.billing.copy.3"
    assert of_topic(names.control, DEFAULT) == GroupNames("shop.orders", "billing", DEFAULT)
    assert of_topic(names.leases, DEFAULT) is None
