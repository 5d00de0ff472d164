"""The options of a queue as users write them, checked before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, TypedDict

from marq.core.catalog.definitions import QueueDefinition
from marq.core.duration import Duration, milliseconds
from marq.errors import ConfigError

MIN_LEASE_MS = 100
MAX_PARTITIONS = 10_000


class QueueChanges(TypedDict, total=False):
    """Options that can change while the queue exists."""

    lease: Duration
    """How long a delivery may take before the message goes to someone else; 30 seconds."""
    max_attempts: int
    """How often a message is tried before it becomes a dead letter; 5."""
    backoff: tuple[Duration, Duration]
    """The wait after the first failed attempt, and the longest one; 1 second, 5 minutes."""
    dead_letter: bool
    """False: what would become a dead letter is dropped."""
    ttl: Duration | None
    """After this long a message nobody has taken is no longer delivered; None: never."""
    retention: Duration
    """How long acked messages are kept; not at all."""


class QueueOptions(QueueChanges, total=False):
    """All options of a queue."""

    partitions: int
    """How many parts the queue has; 4."""
    priorities: Literal[1]
    """Not available yet."""
    lane: Literal[False]
    """Not available yet."""


def definition_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a definition these options ask for; `ConfigError` says which is wrong."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if name not in _CHECKS:
            close = get_close_matches(name, _CHECKS, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(_CHECKS)}"
            raise ConfigError(f"a queue has no option {name!r}: {hint}")
        field, check = _CHECKS[name]
        fields[field] = check(name, value)
    return fields


def define(fields: dict[str, Any]) -> QueueDefinition:
    """A new queue's definition."""
    return QueueDefinition(**fields)


def _lease(name: str, value: Any) -> int:
    lease_ms = milliseconds(value, name)
    if lease_ms < MIN_LEASE_MS:
        raise ConfigError(f"{name} must be at least {MIN_LEASE_MS}ms, not {value!r}")
    return lease_ms


def lease_ms(value: Any) -> int:
    """A lease, for one call or for a queue."""
    return _lease("lease", value)


def _backoff(name: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ConfigError(f'{name} must be (first, longest) like ("1s", "5m"), not {value!r}')
    first_ms, cap_ms = (milliseconds(part, name) for part in value)
    if first_ms > cap_ms:
        raise ConfigError(f"{name} must not start above its longest wait: {value!r}")
    return first_ms, cap_ms


def _ttl(name: str, value: Any) -> int | None:
    if value is None:
        return None
    ttl_ms = milliseconds(value, name)
    if not ttl_ms:
        raise ConfigError(f"{name} must be longer than 0: None means that nothing expires")
    return ttl_ms


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, not {value!r}")
    return value


def _number(lowest: int, highest: int) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigError(f"{name} must be a whole number, not {value!r}")
        if not lowest <= value <= highest:
            raise ConfigError(f"{name} must be between {lowest} and {highest}, not {value}")
        return value

    return check


def _not_yet(default: Any) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if value != default:
            raise ConfigError(f"{name}={value!r} is not available yet: leave it at {default!r}")
        return value

    return check


_CHECKS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "lease": ("lease_ms", _lease),
    "max_attempts": ("max_attempts", _number(1, 1_000_000)),
    "backoff": ("backoff_ms", _backoff),
    "dead_letter": ("dead_letter", _flag),
    "ttl": ("ttl_ms", _ttl),
    "priorities": ("priorities", _not_yet(1)),
    "partitions": ("partitions", _number(1, MAX_PARTITIONS)),
    "lane": ("lane", _not_yet(False)),
    "retention": ("retention_ms", lambda name, value: milliseconds(value, name)),
}

FIXED = QueueOptions.__annotations__.keys() - QueueChanges.__annotations__.keys()
"""Options that cannot change once the queue exists."""
