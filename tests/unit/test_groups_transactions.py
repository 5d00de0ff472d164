"""What becomes of a candidate whose producer may not be one."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from marq.errors import ConfigError
from marq.kafka.groups.transactions import Candidates


class Refused:
    """A producer whose cluster answers with this error."""

    def __init__(self, code: int) -> None:
        self._code = code

    def init_transactions(self, timeout: float) -> None:
        raise KafkaException(KafkaError(self._code, "refused"))

    def purge(self, **what: bool) -> None:
        """There is nothing to throw away."""


def candidates(code: int) -> tuple[Candidates, list[Any]]:
    made: list[Any] = []

    def make() -> Any:
        made.append(Refused(code))
        return made[-1]

    return Candidates(make), made


def test_a_right_that_is_missing_is_an_error_and_not_tried_again_and_again() -> None:
    found, made = candidates(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    with pytest.raises(ConfigError, match=r"transactional ids .* marq\.group"):
        found.init()

    assert len(made) == 2


def test_a_coordinator_that_does_not_answer_is_none() -> None:
    found, _ = candidates(KafkaError._TIMED_OUT)

    assert found.init() is None
