"""Laws of half messages, over random schedules: committed is delivered, rolled back never is."""

from __future__ import annotations

from hypothesis import given, note

from tests.properties.chance import Chance, chances
from tests.properties.effort import tried
from tests.properties.halves_world import History


@tried(4)
@given(chances(700))
def test_what_was_committed_is_delivered_and_what_was_rolled_back_never_is(chance: Chance) -> None:
    history = History(chance)
    try:
        history.run()
        history.calm_down()
        history.world.check_over()
    finally:
        note("\n".join(history.world.story))
