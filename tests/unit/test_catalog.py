"""The catalog: the first change of a version wins, and everyone agrees who did."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from marq.core.catalog import definitions
from marq.core.catalog.definitions import Catalog, Entry, NotAnEntry, QueueDefinition
from marq.core.subject import Subject
from marq.errors import ConfigError

FIRST = QueueDefinition(lease_ms=1_000)
SECOND = QueueDefinition(lease_ms=2_000)


def test_of_two_changes_of_one_version_the_first_wins() -> None:
    found = Catalog()

    assert found.apply(Entry("queue", "orders", 1, FIRST))
    assert not found.apply(Entry("queue", "orders", 1, SECOND))

    assert found.queue("orders") == FIRST


def test_a_change_that_skips_a_version_is_void() -> None:
    found = Catalog()

    assert not found.apply(Entry("queue", "orders", 2, FIRST))

    assert found.queue("orders") is None


def test_every_reader_of_the_log_agrees() -> None:
    log = [
        Entry("queue", "orders", 1, FIRST),
        Entry("queue", "orders", 1, SECOND),
        Entry("queue", "orders", 2, SECOND),
        Entry("queue", "orders", 2, None),
    ]
    readers = Catalog(), Catalog()

    won = [[reader.apply(definitions.decode(definitions.encode(entry))) for entry in log]
           for reader in readers]  # fmt: skip

    assert won == [[True, False, True, False]] * 2
    assert [reader.queue("orders") for reader in readers] == [SECOND, SECOND]


def test_a_deleted_queue_keeps_its_version() -> None:
    found = Catalog()
    found.apply(found.change("orders", FIRST))
    found.apply(found.change("orders", None))

    assert found.queue("orders") is None
    assert list(found.queues()) == []
    assert found.change("orders", SECOND).version == 3


def test_queues_are_named_in_order() -> None:
    found = Catalog()
    for name in ("b", "c", "a"):
        found.apply(found.change(name, FIRST))

    assert list(found.queues()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "definition",
    [None, QueueDefinition(), QueueDefinition(ttl_ms=5, paused=True, purged={"orders:0": 7})],
)
def test_an_entry_is_read_back_as_it_was(definition: QueueDefinition | None) -> None:
    entry = Entry("queue", "orders", 3, definition)

    value = definitions.encode(entry)

    assert definitions.decode(value) == replace(entry, value=value)


def test_only_what_is_not_as_usual_is_written() -> None:
    usual, other = QueueDefinition(lease_ms=30 * 1_000), QueueDefinition(lease_ms=1, purged={})

    assert definitions.encode(Entry("queue", "a", 1, usual)) == HEAD + b',"definition":{}}'
    assert (
        definitions.encode(Entry("queue", "a", 1, other)) == HEAD + b',"definition":{"lease_ms":1}}'
    )


HEAD = b'{"kind":"queue","name":"a","version":1'
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{}",
        b"not json",
        b'{"kind":1,"name":"a","version":1}',
        b'{"kind":"queue","name":"a","version":0}',
        b'{"kind":"queue","name":"a","version":' + b"9" * 5_000 + b"}",
        b'{"kind":"queue","name":"marq.catalog","version":1,"definition":{}}',
        b'{"kind":"queue","name":"' + b"a" * 300 + b'","version":1}',
        b'{"kind":"queue","name":"a\\ud800","version":1}',
        b'{"kind":"group","name":"orders","version":1,"definition":{"queue_version":1}}',
        b'{"kind":"group","name":"orders/","version":1,"definition":{"queue_version":1}}',
        b'{"kind":"group","name":"orders/\\u0000","version":1,"definition":{"queue_version":1}}',
        b'{"kind":"group","name":"dlq.a/b","version":1,"definition":{"queue_version":1}}',
        HEAD + b',"definition":{"x":"' + b"-" * definitions.MOST_BYTES + b'"}}',
        HEAD + b',"x":"\xff"}',
        HEAD + b',"definition":' + DEEP + b"}",
        DEEP,
        b"[" * 1_000_000,
    ],
    ids=lambda value: repr(value)[:60],
)
def test_anything_else_is_no_entry(value: bytes | None) -> None:
    with pytest.raises(NotAnEntry):
        definitions.decode(value)


def test_texts_do_not_count_as_nesting() -> None:
    value = HEAD + b',"definition":{"note":"' + b'[{\\"' * 100 + b'"}}'

    assert definitions.decode(value).newer


@pytest.mark.parametrize(
    "definition",
    [b'{"colour":"red"}', b'{"lane":true}', b'{"priorities":3}', b'{"lease_ms":0}', b"[]", b'"x"',
     b'{"purged":{"a:0":-1}}', b'{"lease_ms":' + b"9" * 5_000 + b"}"],
    ids=lambda value: repr(value)[:40],
)  # fmt: skip
def test_a_definition_that_cannot_be_read_is_a_newer_one_s(definition: bytes) -> None:
    value = HEAD + b',"definition":' + definition + b"}"
    found = Catalog()

    assert found.apply(definitions.decode(value))

    assert list(found.queues()) == ["a"]
    assert list(found.definitions()) == []
    assert found.version("queue", "a") == 1
    assert [each.entry.value for each in found.kept()] == [value]
    for topic in ("a", "dlq.a", "a.p1", "a.sub.audit", "dlq.a.sub.audit", "a/tenant"):
        assert found.is_newer(topic)
        with pytest.raises(ConfigError, match="queue 'a' was made by a newer marq: upgrade"):
            found.definition_of(Subject(topic))
    assert not found.is_newer("b")
    assert found.definition_of(Subject("b")) is None


def test_a_newer_one_s_queue_that_was_deleted_is_deleted() -> None:
    found = Catalog()
    found.apply(definitions.decode(HEAD + b',"definition":{"colour":"red"}}'))

    assert found.apply(Entry("queue", "a", 2))

    assert found.queue("a") is None
    assert not found.is_newer("a")


def test_what_only_a_newer_release_knows_is_kept_as_it_was() -> None:
    found = Catalog()
    value = b'{ "kind":"tap", "name":"a", "version":1, "definition":{"x":[1]}, "more":{} }'

    assert found.apply(definitions.decode(value))
    assert not found.apply(definitions.decode(value))

    assert [each.entry.value for each in found.kept()] == [value]


def test_a_record_that_is_too_large_is_an_error() -> None:
    purged = {f"{'q' * 200}:{number}": 1 << 40 for number in range(3_000)}

    with pytest.raises(ConfigError, match="500,000 at most"):
        definitions.encode(Entry("queue", "q" * 200, 1, QueueDefinition(purged=purged)))


def test_what_belonged_to_a_queue_is_not_its_successor_s() -> None:
    found = Catalog()
    found.apply(found.change("orders", FIRST))
    found.apply(found.record_group("orders", "billing"))
    found.apply(found.change("orders", SECOND))
    assert list(found.groups()) == [("orders", "billing")]

    found.apply(found.change("orders", None))

    assert (list(found.groups()), list(found.leftover_groups())) == ([], [("orders", "billing")])
    found.apply(found.change("orders", FIRST))
    assert (list(found.groups()), list(found.leftover_groups())) == ([], [("orders", "billing")])
    assert (found.made("orders"), found.version("queue", "orders")) == (4, 4)

    found.apply(found.forget_group("orders", "billing"))
    found.apply(found.record_group("orders", "billing"))
    assert (list(found.groups()), list(found.leftover_groups())) == ([("orders", "billing")], [])


def test_a_group_that_is_given_up_is_nobody_s() -> None:
    found = Catalog()
    found.apply(found.change("orders", FIRST))
    found.apply(found.record_group("orders", "billing"))

    found.apply(found.give_up_group("orders", "billing"))

    assert found.is_leftover("orders", "billing")
    assert not found.has_group("orders", "billing")


def test_a_group_that_only_a_newer_release_understands_is_left_alone() -> None:
    found = Catalog()
    found.apply(found.change("orders", FIRST))
    value = b'{"kind":"group","name":"orders/billing","version":1,"definition":{"colour":"red"}}'

    found.apply(definitions.decode(value))
    found.apply(found.change("orders", None))

    assert list(found.leftover_groups()) == []


def test_differences_name_only_what_was_asked_for() -> None:
    stored = QueueDefinition(lease_ms=60_000, backoff_ms=(1_000, 5_000))

    assert definitions.differences(stored, {"lease_ms": 60_000}) == []
    assert definitions.differences(stored, {"lease_ms": 1_500, "ttl_ms": 1_000}) == [
        "lease is '1m', not '1500ms'",
        "ttl is None, not '1s'",
    ]
    assert definitions.differences(stored, {"backoff_ms": (0, 5_000)}) == [
        "backoff is ('1s', '5s'), not ('0s', '5s')"
    ]
