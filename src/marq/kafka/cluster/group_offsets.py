"""The offsets of consumer groups, asked of and set at their coordinators."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)

from marq.errors import NotConnected
from marq.kafka.client import codes
from marq.kafka.client.config import Config
from marq.kafka.client.making import AdminClient, Consumer
from marq.kafka.client.refusals import answered, refusal

T = TypeVar("T")

_COORDINATOR_S = 5.0
_ASKED_S = 1.0
"""So soon is looked why nobody answers."""


class GroupOffsets:
    """What groups have committed; every call waits at most `timeout_s`."""

    def __init__(self, client: AdminClient, settings: Config, timeout_s: float) -> None:
        self._client = client
        self._settings = settings
        self._servers = settings["bootstrap.servers"]
        self._timeout_s = timeout_s

    def begin(self, groups: Mapping[str, tuple[str, int]]) -> set[str]:
        """Set each to the first offset of all partitions of its topic; those that this was done
        for. Asked for at once: one after the other would take milliseconds each."""
        asked: dict[str, Future[Any]] = {}
        for group, (topic, partitions) in groups.items():
            places = [TopicPartition(topic, number, 0) for number in range(partitions)]
            request = [ConsumerGroupTopicPartitions(group, places)]
            timeout_s = min(_COORDINATOR_S, self._timeout_s)
            asked |= self._client.alter_consumer_group_offsets(request, request_timeout=timeout_s)
        return {group for group, future in asked.items() if self._is_set(future)}

    def _is_set(self, future: Future[Any]) -> bool:
        try:
            done = future.result(self._timeout_s).topic_partitions
        except (KafkaException, TimeoutError):
            return False
        return not any(place.error for place in done)

    def commit(self, group: str, topic: str, offsets: list[int]) -> None:
        """Set the offsets of a group; as soon as its members have left, for it must have none."""
        until = time.monotonic() + self._timeout_s
        while not self.commit_idle(group, topic, offsets):
            if time.monotonic() > until:
                raise NotConnected(
                    f"the offsets of {topic!r} cannot be set while someone receives from it"
                )
            time.sleep(0.1)

    def commit_idle(self, group: str, topic: str, offsets: list[int]) -> bool:
        """Set the offsets of a group without members; False if it has some."""
        places = [TopicPartition(topic, number, at) for number, at in enumerate(offsets)]
        request = [ConsumerGroupTopicPartitions(group, places)]
        return self._ask(group, lambda: self._altered(group, request))

    def _altered(self, group: str, request: list[ConsumerGroupTopicPartitions]) -> bool:
        """Each partition has an answer of its own: the whole has no error if all are refused."""
        futures = self._client.alter_consumer_group_offsets(
            request, request_timeout=min(_COORDINATOR_S, self._timeout_s)
        )
        done = futures[group].result(self._timeout_s).topic_partitions
        errors = [place.error for place in done if place.error is not None]
        for error in errors:
            if not codes.has_members(error):
                raise KafkaException(error)
        return not errors

    def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        """The group's offsets; -1001 where it has none.

        Asked by a consumer that never joins: where the coordinator has moved, the admin client's
        list_consumer_group_offsets ends the process (librdkafka 2.16, rd_kafka_cgrp_op).
        """
        places = [TopicPartition(topic, number) for number in range(partitions)]
        consumer = Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})
        try:
            return self._ask(group, lambda: self._found(consumer, places))
        finally:
            consumer.close()

    def _found(self, consumer: Consumer, places: list[Any]) -> list[int]:
        try:
            found = consumer.committed(places, timeout=min(_ASKED_S, self._timeout_s))
        except KafkaException as error:
            raise _reason(consumer, error) from None
        for place in found:
            if place.error is not None:  # not to be taken for a group that has no offset
                raise KafkaException(place.error)
        by_number = {place.partition: place.offset for place in found}
        return [by_number[place.partition] for place in places]

    def forget(self, group: str) -> None:
        """Delete a group's offsets, as soon as its members have left."""
        until = time.monotonic() + self._timeout_s
        while True:
            futures = self._client.delete_consumer_groups([group], request_timeout=self._timeout_s)
            try:
                futures[group].result(self._timeout_s)
                return
            except KafkaException as error:
                if codes.is_no_group(error.args[0]):
                    return
                if not codes.has_members(error.args[0]) or time.monotonic() > until:
                    raise refusal(error, self._servers, f"DELETE on group {group!r}") from None
            time.sleep(0.1)

    def _ask(self, group: str, call: Callable[[], T]) -> T:
        """The answer of a group's coordinator; a new cluster, or a broker just started, loads it
        first, and a question on its way to one that is not yet there is not answered at all."""
        until = time.monotonic() + self._timeout_s
        while True:
            try:
                return answered(call, self._servers)
            except NotConnected:
                if time.monotonic() > until:
                    raise
            except KafkaException as error:
                if not codes.is_leaderless(error.args[0]) or time.monotonic() > until:
                    raise refusal(
                        error, self._servers, f"READ or DESCRIBE on group {group!r}"
                    ) from None
            time.sleep(0.05)


def _reason(consumer: Consumer, error: KafkaException) -> KafkaException:
    """Why nobody answered: a right that is missing comes as a message of the consumer, and the
    question is left to time out."""
    said = (message.error() for message in consumer.consume(100, 0))
    return next((KafkaException(each) for each in said if each and codes.is_denied(each)), error)
