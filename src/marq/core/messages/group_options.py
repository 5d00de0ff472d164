"""The options of a producer group as users write them."""

from __future__ import annotations

from typing import TypedDict

from msgspec import Struct

from marq.core.duration import Duration, milliseconds
from marq.core.messages.terms import SOONEST_MS
from marq.errors import ConfigError


class ProducerGroupOptions(TypedDict, total=False):
    """When a producer group is asked about its half messages."""

    check_after: Duration
    """How long after their owner's last sign of life."""
    check_every: Duration
    """How often from then on."""
    max_checks: int | None
    """How many answers "unknown" give one up."""
    give_up_after: Duration | None
    """When one is given up, whatever was answered; None: never."""
    timeout: Duration
    """How long an owner that lives keeps others from being asked."""
    check_timeout: Duration
    """How long a check may take."""


class GroupTimes(Struct, frozen=True):
    """The same, checked, in milliseconds; 0: never."""

    check_after_ms: int = 10_000
    check_every_ms: int = 30_000
    max_checks: int = 15
    give_up_after_ms: int = 7 * 86_400_000
    timeout_ms: int = 600_000
    check_timeout_ms: int = 10_000


def group_times(options: ProducerGroupOptions) -> GroupTimes:
    """What these options say; `ConfigError` tells which is wrong."""
    for name in options.keys() - ProducerGroupOptions.__annotations__.keys():
        known = ", ".join(ProducerGroupOptions.__annotations__)
        raise ConfigError(f"a producer group has no option {name!r}: there are {known}")
    fields: dict[str, int] = {}
    for name, value in options.items():
        if name == "max_checks":
            fields[name] = _count(value)
        elif name == "give_up_after" and value is None:
            fields["give_up_after_ms"] = 0
        else:
            fields[f"{name}_ms"] = _ms(name, value)
    return GroupTimes(**fields)


def _ms(name: str, value: object) -> int:
    found = milliseconds(value, name)  # type: ignore[arg-type]
    if found < SOONEST_MS:
        raise ConfigError(f"{name} must be at least {SOONEST_MS}ms, not {value!r}")
    return found


def _count(value: object) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1_000_000:
        raise ConfigError(f"max_checks must be a whole number from 1 up, or None, not {value!r}")
    return value
