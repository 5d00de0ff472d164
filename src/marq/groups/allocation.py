"""Who owns which partition: a pure function of the config, or of the last answer and the config."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from marq.groups.config import GroupConfig

Owners = tuple[str, ...]
"""By partition, the member that shall have it; an empty name: nobody."""


def owners(config: GroupConfig, before: Owners = ()) -> Owners:
    """The member of each partition; `before` counts for the sticky allocation alone."""
    if config.member_mappings:
        found = {p: each.member for each in config.member_mappings for p in each.partitions}
        return tuple(found.get(number, "") for number in range(config.max_members))
    chosen = members(config.members, config.max_members)
    if not chosen:
        return ("",) * config.max_members
    if config.allocation == "sticky" and before:
        return _sticky(chosen, before)
    return _even(chosen, config.max_members)


def members(names: Iterable[str], most: int) -> list[str]:
    """Those who count: each once, sorted by bytes, the first `most`."""
    return sorted({name for name in names if name}, key=str.encode)[:most]


def partitions_of(member: str, by_partition: Owners) -> frozenset[int]:
    """The partitions a member shall have."""
    return frozenset(p for p, owner in enumerate(by_partition) if owner == member)


def _even(chosen: list[str], partitions: int) -> Owners:
    """Contiguous blocks; the remainder is dealt one each from the first member."""
    count = len(chosen)
    per = partitions // count
    in_blocks = count * per
    return tuple(
        chosen[p // per] if p < in_blocks else chosen[(p - in_blocks) % count]
        for p in range(partitions)
    )


def _sticky(chosen: list[str], before: Owners) -> Owners:
    """As few moves as an even spread allows: everyone keeps what they have up to their share."""
    share, left_over = divmod(len(before), len(chosen))
    had = Counter(before)
    # Those who have most get the larger shares: each of these saves a move.
    larger = sorted(chosen, key=lambda name: (-had[name], name.encode()))[:left_over]
    room = {name: share + (name in larger) for name in chosen}
    found = list(before)
    for p, name in enumerate(before):
        if room.get(name, 0):
            room[name] -= 1
        else:
            found[p] = ""
    takers = iter([name for name in chosen for _ in range(room[name])])
    return tuple(name or next(takers) for name in found)
