"""The lock names every jar and no registry."""

from __future__ import annotations

import re

from marq.embedded.jvm import jars, lock


def test_every_jar_has_a_digest() -> None:
    sets = {name: jars.locked(name) for name in lock.ROOTS}

    assert {name: len(locked.jars) for name, locked in sets.items()} == {"kafka": 46, "spark": 4}
    for locked in sets.values():
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in locked.jars.values())


def test_the_lock_was_made_from_the_modules_named_in_the_code() -> None:
    assert {name: jars.locked(name).roots for name in lock.ROOTS} == lock.ROOTS


def test_the_lock_names_no_registry() -> None:
    assert "://" not in jars.LOCK_FILE.read_text()
