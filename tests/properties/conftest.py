"""How many examples a property is tried with: MARQ_EXAMPLES=10 tries ten times as many."""

from __future__ import annotations

import os
import sys

from hypothesis import HealthCheck, settings

settings.register_profile(
    "marq",
    max_examples=round(150 * float(os.environ.get("MARQ_EXAMPLES", "1"))),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("marq")

# A set of 65,536 indexes is an integer too long to print otherwise: failures must be shown.
sys.set_int_max_str_digits(0)
