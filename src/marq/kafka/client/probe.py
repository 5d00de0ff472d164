"""Whether a cluster takes messages, found out by sending one."""

from __future__ import annotations

import contextlib

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import NewTopic

from marq.kafka.client import codes
from marq.kafka.client.making import AdminClient, Producer

TOPIC = "marq.probe"
_PATIENCE = 5.0
# The brokers are about to come up: ask again soon, and without a line in the log for each refusal.
_IMPATIENT: dict[str, str | int | float | bool] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "log_level": 0,
}


def takes_messages(bootstrap_servers: str, brokers: int) -> bool:
    """Whether all brokers are there and a record is stored by as many as must have it.

    The record goes to a topic that is made for it and deleted at once, so the probe leaves nothing
    behind; one left by a probe that was killed is used and deleted by the next.
    """
    settings = _IMPATIENT | {"bootstrap.servers": bootstrap_servers}
    admin = AdminClient(settings)
    try:
        if len(admin.list_topics(timeout=_PATIENCE).brokers) < brokers:
            return False
        _make_topic(admin, brokers)
        with contextlib.ExitStack() as afterwards:
            afterwards.callback(lambda: admin.delete_topics([TOPIC])[TOPIC].result(_PATIENCE))
            return _stored(Producer({**settings, "acks": "all"}))
    except (KafkaException, TimeoutError):
        return False


def _make_topic(admin: AdminClient, brokers: int) -> None:
    topic = NewTopic(TOPIC, num_partitions=1, replication_factor=brokers)
    try:
        admin.create_topics([topic])[TOPIC].result(_PATIENCE)
    except KafkaException as error:
        if not codes.is_there_already(error.args[0]):
            raise


def _stored(producer: Producer) -> bool:
    reports: list[bool] = []

    def on_delivery(error: KafkaError | None, _: object) -> None:
        reports.append(error is None)

    producer.produce(TOPIC, b"", on_delivery=on_delivery)
    producer.flush(_PATIENCE)
    return reports == [True]
