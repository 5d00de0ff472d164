"""Which queues the tracker looks at: what happened at once, what is idle in turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from marq.kafka.tracker.turns import MOST, SLICE, QueueFacts, Turns


def queues(number: int, partitions: int = 5) -> dict[str, QueueFacts]:
    return {f"queue-{each}": QueueFacts(1, partitions) for each in range(number)}


def all_seen(found: Turns, known: dict[str, QueueFacts]) -> None:
    """Let every queue have been looked at once, as a new one is."""
    seen: set[str] = set()
    while seen != known.keys():
        seen |= set(found.choose(known))


def test_of_ten_thousand_idle_queues_each_round_looks_at_some_and_all_have_their_turn() -> None:
    found, known = Turns(), queues(10_000)
    all_seen(found, known)

    rounds = [found.choose(known) for _ in range(10_000 * 5 // SLICE)]

    assert all(len(each) * 5 <= SLICE for each in rounds)
    assert {queue for each in rounds for queue in each} == known.keys()


def test_what_happened_is_looked_at_in_the_next_round() -> None:
    found, known = Turns(), queues(10_000)
    all_seen(found, known)
    found.tell(["queue-7", "queue-9998", "deleted"])

    first, second = found.choose(known), found.choose(known)

    assert {"queue-7", "queue-9998"} <= set(first)
    assert not {"queue-9998"} & set(second)


def test_a_new_queue_and_one_made_again_are_looked_at_in_the_next_round() -> None:
    found, known = Turns(), queues(10_000)
    all_seen(found, known)
    known |= {"new": QueueFacts(7, 5), "queue-5000": QueueFacts(3, 5)}

    assert {"new", "queue-5000"} <= set(found.choose(known))
    assert not {"new", "queue-5000"} & set(found.choose(known))


def test_all_of_a_few_are_looked_at_in_every_round() -> None:
    found, known = Turns(), queues(SLICE // 5)

    assert all(set(found.choose(known)) == known.keys() for _ in range(5))


def test_when_much_happens_at_once_it_takes_several_rounds_and_nothing_is_left_out() -> None:
    found, known = Turns(), queues(10_000)
    all_seen(found, known)
    found.tell(known)

    rounds = [found.choose(known) for _ in range(10_000 * 5 // MOST)]

    assert all(len(each) * 5 <= MOST + SLICE for each in rounds)
    assert {queue for each in rounds for queue in each} == known.keys()


NAMES = [f"queue-{number}" for number in range(8)]
SIZES = {name: (1, 5, SLICE + 1)[number % 3] for number, name in enumerate(NAMES)}
some = st.sets(st.sampled_from(NAMES))


@given(st.lists(st.tuples(some, some), max_size=30))
def test_no_queue_waits_for_ever_whatever_happens_to_others(
    rounds: list[tuple[set[str], set[str]]],
) -> None:
    found, waited = Turns(), dict[str, int]()
    for there, happened in rounds:
        known = {name: QueueFacts(1, SIZES[name]) for name in sorted(there)}
        found.tell(happened)
        chosen = found.choose(known)

        assert set(chosen) <= known.keys()
        waited = {name: 0 if name in chosen else waited.get(name, 0) + 1 for name in known}
        assert max(waited.values(), default=0) <= len(NAMES)
