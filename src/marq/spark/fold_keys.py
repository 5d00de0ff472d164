"""The keys of the folds, chosen so that Spark's tasks get the same number of them.

Spark puts a key into the task its hash names. By topic and partition, all four markers partitions
of a small cluster happened to get into one of two tasks, and the other had nothing to do. So each
hold-log partition has a number whose hash ends in the partition's own last bits.
"""

from __future__ import annotations

from itertools import count, islice

from pyspark.sql import Column
from pyspark.sql import functions as F

LOGS = ("markers", "delayed")
"""What the names of hold logs end in, in every namespace."""
_BITS = 0xFFFFFFFF
_LAST = 63
"""What of a hash is chosen: it is even for any power of two of tasks up to 64."""


def fold_key(log: str, partition: int) -> int:
    """The partition's number. It must never change: Spark's state is kept under it."""
    fitting = (n for n in count() if (_hash(n) ^ partition) & _LAST == 0)
    turn = len(LOGS) * (partition // (_LAST + 1)) + LOGS.index(log)
    return next(islice(fitting, turn, None))


def column(partitions: int) -> Column:
    """The key of the fold each record belongs to."""
    found = F.lit(None)
    for log in LOGS:
        keys = F.array(*(F.lit(fold_key(log, number)) for number in range(partitions)))
        found = F.when(F.col("topic").endswith(f".{log}"), keys[F.col("partition")]).otherwise(
            found
        )
    return found


def _hash(number: int) -> int:
    """What Spark's hash of an integer is: Murmur3 with the seed 42."""
    mixed = _rotated(number * 0xCC9E2D51 & _BITS, 15) * 0x1B873593 & _BITS
    found = (_rotated(42 ^ mixed, 13) * 5 + 0xE6546B64 & _BITS) ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        found = (found ^ found >> shift) * factor & _BITS
    return found


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _BITS
