"""What the benchmark makes of how long messages took."""

from __future__ import annotations

from rich.console import Console

from marq.bench import latency, report
from marq.bench.latency import Delays


def test_rounds_are_taken_together_and_ours_compared_with_bare_at_the_same_rate() -> None:
    found = latency.rows(
        [
            Delays("poll", 10, [1.0, 2.0]),
            Delays("poll", 1_000, [50.0]),
            Delays("handler", 10, [9.0, 3.0]),
            Delays("poll", 10, [3.0, 4.0]),
        ]
    )

    poll, _, handler = found
    assert (poll.messages, poll.p50_ms, poll.p99_ms, poll.times_p50) == (4, 3.0, 4.0, None)
    assert (handler.times_p50, handler.times_p99) == (3.0, 2.25)


def test_of_what_is_received_p50_and_p99_have_a_goal_of_a_send_only_p50() -> None:
    delays = [("flush", 0, 1.0), ("send", 0, 1.2), ("poll", 10, 2.0), ("receive", 10, 5.0)]
    found = latency.goals(latency.rows([Delays(what, rate, [ms]) for what, rate, ms in delays]))  # type: ignore[arg-type]

    assert [(goal.name, goal.case, goal.met) for goal in found] == [
        ("marq send, p50 of bare", "one by one", True),
        ("marq receive, p50 of bare", "10/s", False),
        ("marq receive, p99 of bare", "10/s", False),
    ]


def test_what_has_nothing_to_be_compared_with_has_no_goal() -> None:
    assert latency.goals(latency.rows([Delays("handler", 10, [1.0])])) == []


def test_the_table_shows_every_figure_whole() -> None:
    rows = latency.rows([Delays("poll", 10, [1.234]), Delays("handler", 10, [2.468])])
    console = Console(width=report.WIDTH, color_system=None)

    with console.capture() as shown:
        console.print(report.latency(rows))

    assert "…" not in shown.get()
    assert "2.47 │   2.47 │        2.00 │        2.00" in shown.get()
