"""marq: a complete message queue on Apache Kafka."""

from marq.broker import Broker, connect
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
    RuntimeFailed,
    TransactionAborted,
)
from marq.group import Group, GroupInfo, MemberInfo
from marq.groups.output import Output
from marq.member import GroupDelivery, Instance
from marq.message import DeadLetter, Delivery, Sent, Stats
from marq.queue import DeadLetters, Queue
from marq.receipt import Receipt
from marq.settings import Settings
from marq.work.worker import Worker

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
