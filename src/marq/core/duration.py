"""Durations as users write them, in whole milliseconds inside."""

from __future__ import annotations

import re
from datetime import timedelta

from marq.errors import ConfigError

Duration = str | float | int | timedelta
"""`"250ms"`, `"30s"`, `"5m"`, `"12h"`, `"7d"`, a timedelta, or a number of seconds."""

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
LONGEST_MS = 10 * 365 * 86_400_000


def milliseconds(value: Duration, name: str) -> int:
    """The duration in milliseconds; `name` is what an error calls it."""
    exact = _exact_ms(value, name)
    if not 0 <= exact <= LONGEST_MS:
        raise ConfigError(f"{name} must be between 0 and 3650d, not {value!r}")
    return round(exact)


def text(duration_ms: int) -> str:
    """The shortest way to write the duration."""
    for unit, size in reversed(_UNITS_MS.items()):
        if duration_ms and duration_ms % size == 0:
            return f"{duration_ms // size}{unit}"
    return "0s"


def _exact_ms(value: Duration, name: str) -> float:
    match value:
        case timedelta():
            return value.total_seconds() * 1_000
        case bool():
            pass
        case int() | float():
            return value * 1_000
        case str():
            if parsed := _TEXT.fullmatch(value.strip()):
                return float(parsed[1]) * _UNITS_MS[parsed[2]]
    raise ConfigError(
        f'{name} must be a duration like "250ms", "30s" or "7d", a timedelta or seconds, '
        f"not {value!r}"
    )
