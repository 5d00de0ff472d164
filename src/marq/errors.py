"""What can go wrong, one name each; every message says what to do."""

from __future__ import annotations


class QueueError(Exception):
    """The base of every error marq raises."""


class ConfigError(QueueError):
    """An option, name, URL or setting is wrong; raised before anything is written."""


class NotConnected(QueueError):
    """The broker cannot be reached; trying again later is right."""


class RuntimeFailed(QueueError):
    """The embedded runtime could not be installed, started or kept running."""


class PayloadError(QueueError):
    """A payload cannot be encoded or decoded; carries its type and size, never its bytes."""

    def __init__(self, message: str, *, kind: str = "", size: int = 0) -> None:
        super().__init__(message)
        self.kind = kind
        self.size = size


class DeliveryError(QueueError):
    """Something about one delivery; carries its message id."""

    def __init__(self, message: str, *, message_id: str = "") -> None:
        super().__init__(message)
        self.message_id = message_id


class LeaseLost(DeliveryError):
    """The lease was over before the log took the record: the message may be delivered again."""


class AlreadySettled(DeliveryError):
    """The delivery was acked, retried or rejected before; a delivery is settled once."""


class Rollback(QueueError):
    """Raised in the block of a half message to roll it back; the block swallows it."""


class Fenced(DeliveryError):
    """Another instance owns the partition of an ordered group now: roll back what you did."""


class TransactionAborted(QueueError):
    """Nothing of the transaction was sent."""


class MarkerError(QueueError):
    """Bytes in a hold log that are not a marker this version understands."""


class NotAMarker(MarkerError):
    """The bytes do not start as a marker does: skipped and counted."""


class MalformedMarker(MarkerError):
    """The bytes start as a marker does and break off or contradict themselves."""


class UnknownMarkerVersion(MarkerError):
    """A newer version wrote the marker: upgrade the tracker first."""
