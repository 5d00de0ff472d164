"""How deep JSON is nested, before anyone decodes it: a decoder's own limit is the stack's, and that
is another one in every place it is called from."""

from __future__ import annotations

import re

_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[{\]}]")


def is_deeper(value: bytes, most: int) -> bool:
    """Whether objects and arrays are nested more than so deep; of what is no JSON, any answer."""
    if value.count(b"[") + value.count(b"{") <= most:
        return False
    depth = 0
    for found in _BRACKETS.finditer(_TEXT.sub(b"", value)):
        depth += 1 if found[0] in b"[{" else -1
        if depth > most:
            return True
    return False
