"""What a user wants of an instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from marq.core.messages.stored import Outgoing
from marq.kafka.groups.delivery import KafkaGroupDelivery
from marq.member import GroupHandler


def nothing(instance: Any) -> None:
    """For those who do not care."""


@dataclass(frozen=True)
class Handling:
    """The handler and what goes with it."""

    handler: GroupHandler
    letter: Callable[[KafkaGroupDelivery, str], Outgoing | None]
    """A message as a dead letter; None where the queue wants none."""
    now_ms: Callable[[], int]
    """The broker's clock."""
    on_activate: Callable[[Any], object] = nothing
    on_deactivate: Callable[[Any], object] = nothing
    acks_on_return: bool = False
