"""How long a hostile producer is at it: a fixed sample, or HOSTILE=30 times as much, each time
with seeds of its own unless HOSTILE_SEED names one."""

from __future__ import annotations

import os
import random

TIMES = int(os.environ.get("HOSTILE", "1"))
_ANY = 1 if TIMES == 1 else random.randrange(1 << 32)
_FIRST = int(os.environ.get("HOSTILE_SEED", _ANY))
SEEDS = [_FIRST + number for number in range(max(1, TIMES // 5))]


def odd(number: int) -> int:
    """How many odd records, for the effort asked for."""
    return number * min(TIMES, 5)
