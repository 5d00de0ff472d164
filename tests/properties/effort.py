"""How many examples a property is tried with: MARQ_EXAMPLES=10 tries ten times as many."""

from __future__ import annotations

import os

from hypothesis import settings

EXAMPLES = max(1, round(100 * float(os.environ.get("MARQ_EXAMPLES", "1"))))


def tried(times: int) -> settings:
    """Tried so many times as often as other properties: its examples are cheap and many."""
    return settings(max_examples=EXAMPLES * times)
