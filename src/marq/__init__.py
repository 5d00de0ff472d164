"""marq: a complete message queue on Apache Kafka."""

from marq.broker import Broker, connect
from marq.core.markers.marker import Check
from marq.core.messages.header import Past
from marq.errors import (
    AlreadySettled,
    ConfigError,
    DeliveryError,
    Fenced,
    LeaseLost,
    NotConnected,
    PayloadError,
    QueueError,
    Rollback,
    RuntimeFailed,
    TransactionAborted,
)
from marq.group import Group, GroupInfo, MemberInfo
from marq.groups.output import Output
from marq.half import Half, HalfReceipt, ProducerGroup
from marq.member import GroupDelivery, Instance
from marq.message import DeadLetter, Delivery, Sent, Stats
from marq.queue import DeadLetters, Queue
from marq.receipt import Receipt
from marq.settings import Settings
from marq.work.worker import Worker

COMMIT, ROLLBACK, UNKNOWN = Check.COMMIT, Check.ROLLBACK, Check.UNKNOWN
"""What a check of a producer group answers."""

__all__ = [  # noqa: RUF022 - grouped: it reads as a table of contents
    # Connect
    "connect",
    "Broker",
    "Settings",
    # Queues and messages
    "Queue",
    "Delivery",
    "Sent",
    "Receipt",
    "Stats",
    "DeadLetters",
    "DeadLetter",
    "Past",
    # Workers
    "Worker",
    # Ordered groups
    "Group",
    "GroupInfo",
    "GroupDelivery",
    "Instance",
    "MemberInfo",
    "Output",
    # Half messages
    "ProducerGroup",
    "Half",
    "HalfReceipt",
    "Check",
    "COMMIT",
    "ROLLBACK",
    "UNKNOWN",
    "Rollback",
    # Errors
    "QueueError",
    "ConfigError",
    "NotConnected",
    "RuntimeFailed",
    "PayloadError",
    "DeliveryError",
    "LeaseLost",
    "Fenced",
    "AlreadySettled",
    "TransactionAborted",
]  # fmt: skip
