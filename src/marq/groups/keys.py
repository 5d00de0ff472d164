"""Which partition of a group a key belongs to: the same in every process, for good."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from marq.groups.config import Filter

_BASIS, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF
SUBJECT = "marq-subject"
"""The header that holds a message's dotted subject, for groups with filters."""


def fnv1a(key: bytes) -> int:
    """The FNV-1a hash of 32 bits, unsigned."""
    found = _BASIS
    for byte in key:
        found = (found ^ byte) * _PRIME & _MASK
    return found


@lru_cache(maxsize=1 << 16)  # keys come again, and a byte of one costs as much as asking here
def partition_of(key: bytes, partitions: int) -> int:
    """Where a key's messages go."""
    return fnv1a(key) % partitions


def subject_key(subject: str, filters: Iterable[Filter]) -> bytes | None:
    """The key of a subject by the first filter that matches; None: it is not for this group."""
    for each in filters:
        wild = _wildcards(each.filter.split("."), subject.split("."))
        if wild is not None:
            chosen = "".join(wild[number - 1] for number in each.partitioning_wildcards)
            return (chosen if each.partitioning_wildcards else subject).encode()
    return None


def _wildcards(pattern: list[str], tokens: list[str]) -> list[str] | None:
    """What the `*` tokens stand for; None if the subject does not match."""
    if pattern[-1] == ">":
        pattern = pattern[:-1]
        if len(tokens) <= len(pattern):
            return None  # it stands for one token or more
        tokens = tokens[: len(pattern)]
    if len(pattern) != len(tokens):
        return None
    pairs = list(zip(pattern, tokens, strict=True))
    if any(wanted not in ("*", token) for wanted, token in pairs):
        return None
    return [token for wanted, token in pairs if wanted == "*"]
