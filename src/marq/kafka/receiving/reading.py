"""A queue's topic as the pump reads it: polled, paused, and what goes wrong with it."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from marq.errors import ConfigError, NotConnected
from marq.kafka.client import codes
from marq.kafka.client.making import Consumer, take
from marq.kafka.client.refusals import denied
from marq.kafka.cluster.queue_topic import QueueTopic

log = logging.getLogger("marq.kafka")


_COMMITTED_S = 3.0


class Reading:
    """One consumer of one topic, from joining the group to leaving it."""

    def __init__(self, topic: QueueTopic, settings: dict[str, Any]) -> None:
        self._queue = topic.name
        self._topic = topic
        self._group = settings["group.id"]
        found = topic.id()
        if found is None:
            raise self._deleted()
        self.topic_id = found
        self.consumer = Consumer(settings)
        self._starts: dict[int, int] = {}
        """Where reading a partition began, until its first claim."""
        self._paused: bool | None = None
        """Whether all our partitions are paused; None: some may be."""

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these from where the group has come to."""
        self._begin(self._from_committed(partitions))

    def start(self, partition: int, first: int) -> int:
        """Where a claim begins whose first message is this one: the first claim where reading
        began, for a transaction leaves offsets there that hold no message, and nobody else would
        ever claim them."""
        return min(first, self._starts.pop(partition, first))

    def _begin(self, places: list[TopicPartition]) -> None:
        self._starts |= {place.partition: place.offset for place in places if place.offset >= 0}
        self._paused = None  # the new ones are not, the old ones may be
        self.consumer.incremental_assign(places)

    def _from_committed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Where librdkafka would begin; it asks by itself where the coordinator does not answer."""
        for place in partitions:
            self._starts.pop(place.partition, None)
        try:
            found = self.consumer.committed(partitions, timeout=_COMMITTED_S)
        except KafkaException as error:
            log.info(
                "committed offsets not read", extra={"queue": self._queue, "error": str(error)}
            )
            return partitions
        return partitions if any(place.error for place in found) else found

    def poll(self, limit: int, patience_s: float) -> list[Any]:
        """The next messages; what the consumer has to say otherwise is acted on."""
        batch = take(self.consumer, limit, patience_s)
        if not any(map(Message.error, batch)):
            return batch
        for message in batch:
            if message.error() is not None:
                self._failed(message)
        return [message for message in batch if message.error() is None]

    def pause(self, paused: bool) -> None:
        """Fetch nothing more, or go on; polling goes on, for rebalances are served in it."""
        if self._paused is not paused:
            self._paused = paused
            change = self.consumer.pause if paused else self.consumer.resume
            change(self.consumer.assignment())

    def refuse_if_denied(self, error: KafkaError) -> None:
        if codes.is_denied(error):
            is_group = codes.is_group_denied(error)
            what = f"group {self._group!r}" if is_group else f"topic {self._queue!r}"
            raise denied(f"READ on {what}", error.str())

    def _failed(self, message: Any) -> None:
        error = message.error()
        self.refuse_if_denied(error)
        if codes.is_gone(error):
            self._refuse_another_topic()
        elif codes.is_off_the_log(error):
            self._refuse_another_topic()
            self._go_on(message.partition())
        else:
            log.info("messages not fetched", extra={"queue": self._queue, "error": error.str()})

    def _refuse_another_topic(self) -> None:
        """A queue created again is another source: claims under the old one's id would open
        nothing, and what they commit would be lost. A broker may also not know it yet."""
        with contextlib.suppress(NotConnected):
            if self._topic.id() != self.topic_id:
                raise self._deleted()

    def _deleted(self) -> ConfigError:
        return ConfigError(f"queue {self._queue!r} was deleted: its worker has nothing to do")

    def _go_on(self, partition: int) -> None:
        """Without an offset of the group's: where claims end, and say so. All that was claimed
        has ended or comes back by itself, and nothing unacked lies below the log's start."""
        if partition not in {place.partition for place in self.consumer.assignment()}:
            return
        place = TopicPartition(self._queue, partition)
        start, _ = self.consumer.get_watermark_offsets(place, timeout=10)
        try:
            start = self._topic.unclaimed_from(self.topic_id, partition, start)
        except NotConnected:  # from the start, then: twice rather than never
            log.warning("the hold log cannot be read", extra={"queue": self._queue})
        log.warning(
            "no usable offset: going on where claims end",
            extra={"queue": self._queue, "partition": partition, "offset": start},
        )
        # Not by seek: librdkafka has stopped fetching it.
        self.consumer.incremental_unassign([place])
        self._begin([TopicPartition(self._queue, partition, start)])
