"""Where logs start and end: an admin client's list_offsets, and what must be watched in it.

Two things librdkafka 2.16 does there, seen with a leader that hung: a question nobody answered in
time is answered without an error, with the offset -1001; and when a leader has moved, the epoch of
the old one is sent on, and refused, until someone asks for the topic's metadata.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin._listoffsets import OffsetSpec

from marq.kafka.client import codes
from marq.kafka.client.making import AdminClient
from marq.kafka.client.refusals import refusal, unreachable
from marq.kafka.client.seeker import Place

_METADATA_S = 5.0
_AT_ONCE = 500
_KNOWN_S = 5.0
"""How long those are waited for that need not be known."""
_LONGER_S = 1.0
"""An answer that is late is told by the client itself, a moment later."""
_NEWEST: Any = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]


class Offsets:
    """Asks leaders for offsets; every call waits at most `timeout_s` for an answer."""

    def __init__(self, client: AdminClient, servers: str, timeout_s: float) -> None:
        self._client = client
        self._servers = servers
        self._timeout_s = timeout_s

    def each(self, topic: str, numbers: Iterable[int], spec: Any) -> list[int]:
        """Those of these partitions, all of them."""
        return [each.offset for each in self._each(topic, numbers, spec)]

    def newest_ms(self, topic: str, numbers: Iterable[int]) -> int:
        """When the latest record of these partitions was appended; 0: there is none."""
        return max(0, *(int(each.timestamp) for each in self._each(topic, numbers, _NEWEST)))

    def _each(self, topic: str, numbers: Iterable[int], spec: Any) -> list[Any]:
        """What leaders answer, of all; asked again while they are being found."""
        places = [(topic, number) for number in numbers]
        asked = {TopicPartition(*place): spec for place in places}
        until = time.monotonic() + self._timeout_s
        while True:
            found, errors = self._ask(asked, self._timeout_s)
            if not errors:
                return [found[place] for place in places]
            self._refuse(topic, errors.values(), time.monotonic() > until)
            self._look_for_leaders({topic})
            time.sleep(0.05)

    def _refuse(self, topic: str, errors: Iterable[KafkaError], is_late: bool) -> None:
        for error in errors:
            if codes.is_away(error):
                raise unreachable(self._servers)
            if not codes.is_leaderless(error) or is_late:
                raise refusal(KafkaException(error), self._servers, f"DESCRIBE on topic {topic!r}")

    def known(self, asked: dict[TopicPartition, Any]) -> dict[Place, int]:
        """The offsets; partitions that were deleted or have no leader now are left out."""
        known: dict[Place, int] = {}
        items = iter(asked.items())
        # What the client does for a question grows faster than the number of partitions in it.
        while portion := dict(islice(items, _AT_ONCE)):
            known |= self._known(portion)
        return known

    def _known(self, asked: dict[TopicPartition, Any]) -> dict[Place, int]:
        found, errors = self._ask(asked, min(_KNOWN_S, self._timeout_s))
        moved = {topic for (topic, _), error in errors.items() if codes.is_moved(error)}
        self._look_for_leaders(moved)
        return {place: each.offset for place, each in found.items()}

    def _ask(
        self, asked: dict[TopicPartition, Any], timeout_s: float
    ) -> tuple[dict[Place, Any], dict[Place, KafkaError]]:
        found: dict[Place, Any] = {}
        errors: dict[Place, KafkaError] = {}
        futures = self._client.list_offsets(asked, request_timeout=timeout_s)
        for partition, future in futures.items():
            place = (partition.topic, partition.partition)
            try:
                answer = future.result(timeout_s + _LONGER_S)
            except TimeoutError:
                raise unreachable(self._servers) from None
            except KafkaException as error:
                errors[place] = error.args[0]
            else:
                if answer.offset == OFFSET_INVALID:
                    errors[place] = codes.NO_ANSWER
                else:
                    found[place] = answer
        return found, errors

    def _look_for_leaders(self, topics: set[str]) -> None:
        for topic in topics:
            with contextlib.suppress(KafkaException):  # the next question tells
                self._client.list_topics(topic, timeout=min(_METADATA_S, self._timeout_s))
