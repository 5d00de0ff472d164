"""What an error of a broker or of librdkafka means."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

import marq
from marq.kafka.client import codes

CODE = re.compile(r"KafkaError\.(_?[A-Z])")
KNOW_CODES = {f"kafka/client/{name}.py" for name in ("codes", "doors", "telling")}


def test_nobody_else_knows_an_error_by_its_code() -> None:
    sources = Path(marq.__file__).parent
    found = {
        str(path.relative_to(sources))
        for path in sources.rglob("*.py")
        if CODE.search(path.read_text())
    }

    assert found == KNOW_CODES


@pytest.mark.parametrize(
    "code",
    [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION],
)
def test_a_topic_that_is_not_there_may_only_be_unknown_yet(code: int) -> None:
    error = KafkaError(code)

    assert codes.is_gone(error)
    assert codes.is_leaderless(error), "a call that can be made again is"
    assert not codes.is_passing(error), "a reader would wait for ever"


def test_a_reader_outside_any_group_needs_no_right_to_a_group() -> None:
    error = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)

    assert codes.is_denied(error)
    assert not codes.is_unreadable(error)
    assert codes.is_passing(error)


def test_a_producer_that_failed_for_good_is_as_good_as_fenced() -> None:
    assert codes.is_fenced(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "", True))
    assert not codes.is_fenced(KafkaError(KafkaError._TIMED_OUT))


def test_an_expired_record_is_late_and_may_have_been_written() -> None:
    error = KafkaError(KafkaError._MSG_TIMED_OUT)

    assert codes.is_late(error)
    assert not codes.is_refused(error)
    assert not codes.is_never_written(error)
