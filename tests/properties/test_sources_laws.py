"""Laws of sources that are put aside: they cost nothing and change nothing."""

from __future__ import annotations

from hypothesis import given

from marq.core.fold import batch
from marq.core.fold.counting import source_counts
from marq.core.fold.fold import fold
from marq.core.fold.state import State
from marq.kafka.tracker.act import report
from marq.kafka.tracker.heard import Heard
from tests.properties.any_log import AnyLog
from tests.properties.chance import Chance, chances
from tests.properties.hold_log import blobs, loaded

PLACE = ("marq.markers", 0)


@given(chances(600))
def test_what_is_put_aside_is_known_as_if_it_were_not(chance: Chance) -> None:
    """By a tracker that loads and saves its state with each batch, and by its driver, which hears
    only of sources at work; now and then the query starts again, or the driver does."""
    log, plain, kept, heard, told_to = AnyLog(chance), State(), blobs(State()), Heard(), 1
    while chance.left():
        records = [log.write() for _ in range(1 + chance.below(6))]
        fold(plain, records)
        state = fold(loaded(kept), records)
        found = batch.conclude(state, 0, caught_up=False, told_to=told_to)
        heard.take(report.of(*PLACE, found))
        kept = blobs(state)

        assert dict(loaded(kept).claimed.items()) == dict(plain.claimed.items())
        assert loaded(kept).claims == plain.claims
        told = sorted(heard.sources(), key=str)
        assert told == sorted(source_counts(plain, plain.claimed), key=str)

        match chance.below(8):
            case 4 | 5:
                log.restate(plain)
            case 6:
                log.forget(plain)
            case 7:
                told_to += 1
                heard = Heard()
