"""Topics and group offsets: what is created, looked up and deleted on the cluster."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, cast

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from marq.errors import ConfigError, QueueError
from marq.kafka.client import codes, config, doors
from marq.kafka.client.making import AdminClient
from marq.kafka.client.refusals import answered, denied, refusal, unreachable
from marq.kafka.cluster.group_offsets import GroupOffsets
from marq.kafka.cluster.offsets import Offsets

T = TypeVar("T")
_LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_TRIM_S = 5.0
_FEW = 20
_SOON_S = 0.5
"""So often is looked whether brokers refuse us: librdkafka would try again until time is over."""
_CLOSES_S = 3.0


class Admin:
    """One admin client; every call waits at most `timeout_s`."""

    def __init__(self, settings: config.Config, timeout_s: float) -> None:
        self._settings = settings
        self._client = _client(settings)
        self.servers = settings["bootstrap.servers"]
        self._timeout_s = timeout_s
        self._offsets = Offsets(self._client, self.servers, timeout_s)
        self._groups = GroupOffsets(self._client, settings, timeout_s)

    def brokers(self) -> int:
        """The number of brokers; `NotConnected` if none answers, `ConfigError` if they do and do
        not let us in."""
        began = time.monotonic()
        while not (found := self._answering()):
            took_s = time.monotonic() - began
            self._client.poll(0)  # serves the error callback
            door = doors.of(self.servers)
            if why := door.shut():
                raise doors.not_let_in(self.servers, why)
            if took_s > _CLOSES_S and door.closes():
                raise doors.not_let_in(self.servers, doors.CLOSES)
            if took_s > self._timeout_s:
                raise unreachable(self.servers)
            time.sleep(0.05)  # one that has just come up may not know itself yet
        return found

    def _answering(self) -> int:
        """The number of brokers, if one answers soon."""
        try:
            return len(self._client.list_topics(timeout=min(_SOON_S, self._timeout_s)).brokers)
        except KafkaException as error:
            if not codes.is_away(error.args[0]):
                raise refusal(error, self.servers) from None
            return 0

    def create(self, topics: Iterable[tuple[str, int, dict[str, str]]], replicas: int) -> set[str]:
        """Create topics (name, partitions, settings); those that are there stay as they are. Which
        were created."""
        # Of three copies two must be there before a record counts, whatever the cluster's default.
        safe = {"min.insync.replicas": str((replicas + 1) // 2)}
        new = [
            NewTopic(name, partitions, replicas, config={**safe, **settings})
            for name, partitions, settings in topics
        ]
        futures = self._client.create_topics(new, request_timeout=self._timeout_s)
        return {topic for topic, future in futures.items() if self._is_created(topic, future)}

    def _is_created(self, topic: str, future: Future[Any]) -> bool:
        """Whether it was this call that created it."""
        try:
            self._ask(lambda: future.result(self._timeout_s))
            return True
        except KafkaException as error:
            if not codes.is_there_already(error.args[0]):
                raise refusal(error, self.servers, f"CREATE on topic {topic!r}") from None
            return False

    def settings(self, topic: str) -> dict[str, str]:
        """What the topic is set to, by itself or by the cluster's defaults."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        futures = self._client.describe_configs([resource], request_timeout=self._timeout_s)
        found = self._settle(futures[resource], f"DESCRIBE_CONFIGS on topic {topic!r}")
        return {name: entry.value for name, entry in found.items()}

    def topics(self) -> list[str]:
        """The names of all topics."""
        return list(self._ask(lambda: self._client.list_topics(timeout=self._timeout_s)).topics)

    def delete(self, *topics: str) -> None:
        """Delete topics; one that does not exist is no error."""
        futures = self._client.delete_topics(list(topics), request_timeout=self._timeout_s)
        for topic, future in futures.items():
            self._settle(future, f"DELETE on topic {topic!r}", codes.is_gone)

    def describe(self, topic: str) -> tuple[bytes, int] | None:
        """The topic's id and number of partitions; None if there is none."""
        return self.describe_all([topic])[topic]

    def describe_all(self, topics: Iterable[str]) -> dict[str, tuple[bytes, int] | None]:
        """The same of many at once."""
        found = self.describe_each(topics)
        for about in found.values():
            if isinstance(about, QueueError):
                raise about
        return cast(dict[str, tuple[bytes, int] | None], found)

    def describe_each(
        self, topics: Iterable[str]
    ) -> dict[str, tuple[bytes, int] | QueueError | None]:
        """The same; where the cluster does not tell it of one, why not."""
        if not (asked := list(topics)):
            return {}
        futures = self._client.describe_topics(
            TopicCollection(asked), request_timeout=self._timeout_s
        )
        found = {
            topic: self._try(future, f"DESCRIBE on topic {topic!r}", codes.is_gone)
            for topic, future in futures.items()
        }
        return {
            topic: about if about is None or isinstance(about, QueueError) else _identity(about)
            for topic, about in found.items()
        }

    def refuse_undeletable(self, topic: str) -> None:
        """`ConfigError` if it is there and may not be deleted: to be asked before what refers to it
        is removed."""
        futures = self._client.describe_topics(
            TopicCollection([topic]),
            include_authorized_operations=True,
            request_timeout=self._timeout_s,
        )
        about = self._settle(futures[topic], f"DESCRIBE on topic {topic!r}", codes.is_gone)
        allowed = about.authorized_operations if about is not None else None
        if allowed is not None and AclOperation.DELETE not in allowed:
            raise denied(f"DELETE on topic {topic!r}", "nothing was deleted")

    def topic_id(self, topic: str) -> bytes | None:
        """The topic's id; None if there is none."""
        found = self.describe(topic)
        return found[0] if found else None

    def describe_new(self, topic: str) -> tuple[bytes, int] | None:
        """The same of a topic created just now: brokers hear of it one after the other."""
        until = time.monotonic() + self._timeout_s
        while (found := self.describe(topic)) is None and time.monotonic() < until:
            time.sleep(0.05)
        return found

    def ends(self, topic: str, partitions: int) -> list[int]:
        """The high watermarks."""
        return self._offsets.each(topic, range(partitions), _LATEST)

    def end(self, topic: str, partition: int) -> int:
        """The high watermark of one partition."""
        return self._offsets.each(topic, (partition,), _LATEST)[0]

    def newest_ms(self, topic: str, partitions: int) -> int:
        """When the latest record that is there was appended; 0: there is none."""
        return self._offsets.newest_ms(topic, range(partitions))

    def trim(self, ends: dict[tuple[str, int], int]) -> None:
        """Delete the records below these offsets."""
        for error in self.trim_each(ends).values():
            raise error

    def trim_each(self, ends: dict[tuple[str, int], int]) -> dict[tuple[str, int], QueueError]:
        """The same; where it could not be done, why not."""
        if not ends:
            return {}
        # Not to be carried out long after it was asked for: by then the name may be another's.
        timeout_s = min(_TRIM_S, self._timeout_s)
        futures = self._client.delete_records(
            [TopicPartition(*place, end) for place, end in ends.items()],
            request_timeout=timeout_s,
            operation_timeout=timeout_s,
        )
        tried = {
            (place.topic, place.partition): self._try(
                future, f"DELETE on topic {place.topic!r}", codes.is_gone, codes.is_off_the_log
            )
            for place, future in futures.items()
        }
        return {place: error for place, error in tried.items() if isinstance(error, QueueError)}

    def starts(self, topic: str, partitions: int) -> list[int]:
        """The first offsets that are there."""
        return self._offsets.each(topic, range(partitions), _EARLIEST)

    def spans(self, topics: dict[str, int]) -> dict[tuple[str, int], tuple[int, int]]:
        """Start and end of every partition of these topics; those that are gone are left out."""
        places = [(t, n) for t, partitions in topics.items() for n in range(partitions)]
        starts, ends = self.known_starts(places), self.known_ends(places)
        return {place: (starts[place], ends[place]) for place in starts.keys() & ends.keys()}

    def known_starts(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Where these partitions start; those that nobody tells of are left out."""
        return self._offsets.known({TopicPartition(*place): _EARLIEST for place in places})

    def known_ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Where these partitions end; those that nobody tells of are left out."""
        return self._offsets.known({TopicPartition(*place): _LATEST for place in places})

    def offsets_at(self, times_ms: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """By partition, the first offset appended at or after that time; -1: there is none. What
        cannot be told now is left out."""
        asked = {
            TopicPartition(*place): OffsetSpec.for_timestamp(at_ms)
            for place, at_ms in times_ms.items()
        }
        return self._offsets.known(asked)

    def wait_until_led(self, *topics: str) -> None:
        """Wait until every partition of these topics has a leader: new ones take a moment."""
        until = time.monotonic() + self._timeout_s
        while True:
            found = self._metadata(topics)
            if all(name in found and _is_led(found[name]) for name in topics):
                return
            if time.monotonic() > until:
                raise unreachable(self.servers)
            time.sleep(0.05)

    def _metadata(self, topics: Collection[str]) -> dict[str, Any]:
        """What one broker knows of these; of many, by a question for all there are."""
        if len(topics) > _FEW:
            return dict(self._ask(lambda: self._client.list_topics(timeout=self._timeout_s)).topics)
        found: dict[str, Any] = {}
        for topic in topics:
            found |= self._ask(partial(self._client.list_topics, topic, self._timeout_s)).topics
        return found

    # Groups.

    def begin(self, groups: Mapping[str, tuple[str, int]]) -> set[str]:
        """Set groups to the first record of topics that were created just now, given with the
        numbers of their partitions; for which it could be done at once."""
        return self._groups.begin(groups)

    def commit(self, group: str, topic: str, offsets: list[int]) -> None:
        """Set the offsets of a group; as soon as its members have left, for it must have none."""
        self._groups.commit(group, topic, offsets)

    def commit_idle(self, group: str, topic: str, offsets: list[int]) -> bool:
        """Set the offsets of a group without members; False if it has some."""
        return self._groups.commit_idle(group, topic, offsets)

    def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        """The group's offsets; -1001 where it has none."""
        return self._groups.committed(group, topic, partitions)

    def forget_group(self, group: str) -> None:
        """Delete a group's offsets, as soon as its members have left."""
        self._groups.forget(group)

    def _try(
        self, future: Future[Any], needed: str, *harmless: Callable[[KafkaError], bool]
    ) -> Any:
        """What came of it; the error as a value, so that one keeps nothing of the others."""
        try:
            return self._settle(future, needed, *harmless)
        except QueueError as error:
            return error

    def _settle(
        self, future: Future[Any], needed: str, *harmless: Callable[[KafkaError], bool]
    ) -> Any:
        """What came of it; `needed`: the right that it takes."""
        try:
            return self._ask(lambda: future.result(self._timeout_s))
        except KafkaException as error:
            if not any(is_harmless(error.args[0]) for is_harmless in harmless):
                raise refusal(error, self.servers, needed) from None
            return None

    def _ask(self, call: Callable[[], T]) -> T:
        return answered(call, self.servers)


def _client(settings: config.Config) -> AdminClient:
    """The first client of a process that has all of the user's settings: what is wrong with them
    is said here."""
    try:
        return AdminClient(settings)
    except KafkaException as error:
        raise ConfigError(
            f"the Kafka settings cannot be used: {error.args[0].str().strip()} "
            f"(they are librdkafka's; `marq config show` tells where each comes from)"
        ) from None


def _identity(about: Any) -> tuple[bytes, int]:
    return base64.b64decode(str(about.topic_id) + "=="), len(about.partitions)


def _is_led(topic: Any) -> bool:
    return bool(topic.partitions) and all(p.leader >= 0 for p in topic.partitions.values())
