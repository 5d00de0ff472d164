"""Of all who claim a message out of turn, the first in the log has it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from marq.core.fold.fold import Record
from marq.core.fold.taking import Taking, lots
from marq.core.markers.marker import (
    Claim,
    ClaimId,
    EndedRuns,
    Marker,
    Progress,
    Restate,
    Source,
    Step,
)

LETTERS = Source(b"letters", 0, "dlq.orders", "", 0)
MINE, THEIRS = ClaimId(1, 1), ClaimId(2, 1)


def claim(name: ClaimId, first: int, count: int) -> Claim:
    return Claim(name, LETTERS, first, ((first, count),), 30_000)


def taking(*log: Marker) -> Taking:
    found = Taking()
    found.ask(MINE)
    found.read(Record(offset, 1_000 + offset, body) for offset, body in enumerate(log))
    return found


def test_who_claims_first_has_it_and_the_other_has_the_rest() -> None:
    assert taking(claim(THEIRS, 5, 2), claim(MINE, 4, 4)).won(MINE) == {4, 7}
    assert taking(claim(MINE, 4, 4), claim(THEIRS, 5, 2)).won(MINE) == {4, 5, 6, 7}


def test_what_has_ended_is_nobody_s_any_more() -> None:
    ended = Progress((Step(THEIRS, 0b11),))

    assert taking(claim(THEIRS, 5, 2), ended, claim(MINE, 5, 2)).won(MINE) == frozenset()


def test_what_a_trimmed_log_only_says_to_have_ended_is_not_won() -> None:
    restated = Restate(9, (), (EndedRuns(LETTERS, ((0, 6),)),))

    assert taking(restated, claim(MINE, 5, 2)).won(MINE) == {6}


def test_a_claim_that_was_sent_again_counts_from_the_first_time() -> None:
    log = (claim(MINE, 5, 2), claim(THEIRS, 5, 2), claim(MINE, 5, 2))

    assert taking(*log).won(MINE) == {5, 6}


def test_a_claim_that_is_not_in_the_log_yet_has_won_nothing_yet() -> None:
    assert not taking(claim(THEIRS, 5, 2)).settled
    assert taking(claim(MINE, 5, 2)).settled


def test_the_loser_s_claim_gives_up_nothing_of_the_winner_s() -> None:
    """It lapses later than theirs, so that the letter comes back only after both."""
    found = taking(claim(THEIRS, 5, 1), claim(MINE, 5, 1))

    assert list(found.free(LETTERS, (4, 5, 6))) == [4, 6]
    assert set(found._state.claims) == {MINE, THEIRS}


def test_a_claim_takes_letters_on_both_sides_of_what_is_no_letter() -> None:
    found = taking(claim(THEIRS, 8, 20))
    offsets = [1, 2, 4, 7, 28, 40]

    gaps = found.gaps(LETTERS, offsets)

    assert gaps[:4] == [[], [3], [5, 6], []]  # nothing is left of what they have claimed
    assert list(lots(offsets, gaps, letters={5})) == [[1, 2, 4], [7, 28], [40]]


@given(
    st.sets(st.integers(0, 40)),
    st.sets(st.integers(0, 40)),
    st.sets(st.tuples(*[st.integers(0, 40)] * 2)),
)
def test_no_claim_covers_a_letter_that_it_does_not_take(
    chosen: set[int], letters: set[int], theirs: set[tuple[int, int]]
) -> None:
    """Whatever others have claimed, and wherever letters lie that are not to be taken."""
    claims = [claim(ClaimId(2, n), first, 1 + n) for n, (first, _) in enumerate(sorted(theirs))]
    found = taking(*claims)
    offsets = list(found.free(LETTERS, sorted(chosen)))

    lot_of = list(lots(offsets, found.gaps(LETTERS, offsets), letters))

    assert [at for lot in lot_of for at in lot] == offsets
    for lot in lot_of:
        covered = set(found.free(LETTERS, range(lot[0], lot[-1] + 1)))
        assert covered - set(lot) <= set(range(41)) - letters
