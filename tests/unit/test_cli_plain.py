"""What anybody wrote to a queue is shown as it is: no escape sequence, no markup."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

import marq
from marq.cli import app, plain, shown
from marq.cli.logs import Formatter

NASTY = "[/b]oops [link=file:///etc]x[/link] \x1b[31mred\x1b]0;title\x07 \x9b2J \u202egnp.exe"


@given(st.text())
def test_nothing_a_terminal_obeys_is_left_in_a_text(anything: str) -> None:
    assert plain.text(anything).isprintable()
    assert plain.lines(anything).replace("\n", "").replace("\t", "").isprintable()


@given(st.recursive(st.text() | st.none(), lambda each: st.dictionaries(st.text(), each)))
def test_json_stays_the_same_json_without_what_a_terminal_obeys(anything: object) -> None:
    line = shown.line(anything)

    assert line.isprintable()
    assert json.loads(line) == anything


def test_a_text_that_is_printable_is_shown_as_it_is() -> None:
    assert plain.text("größe 価格 [b]") == "größe 価格 [b]"
    assert shown.line({"name": "größe 価格"}) == '{"name": "größe 価格"}'


def test_markup_and_escapes_of_a_cell_reach_the_screen_as_text() -> None:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(shown.cell(NASTY))

    assert "[/b]oops [link=file:///etc]x[/link] \\x1b[31mred" in captured.get()
    assert "\x1b" not in captured.get()


def test_a_log_record_is_one_line_without_escapes() -> None:
    record = logging.makeLogRecord({"msg": "odd", "queue": f"a\nb{NASTY}", "levelname": "INFO"})

    line = Formatter("%(levelname)s %(message)s").format(record)

    assert line.startswith("INFO odd queue=a\\nb[/b]oops")
    assert line.isprintable()


@pytest.mark.parametrize(
    "command", [("peek", "jobs"), ("dlq", "ls", "jobs"), ("dlq", "show", "jobs")]
)
@pytest.mark.parametrize("as_json", [False, True])
def test_commands_show_a_hostile_message_as_text(
    command: tuple[str, ...], as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARQ_URL", "memory://plain")
    with marq.connect("memory://plain") as broker:
        queue = broker.queue("jobs")
        queue.send(NASTY, key=NASTY, headers={NASTY: NASTY})
        if command[0] == "dlq":
            queue.receive()[0].reject(NASTY)

        result = CliRunner().invoke(app, [*command, *(["--json"] if as_json else [])])

        queue.purge()
        queue.dead_letters.purge()

    assert result.exit_code == 0, result.output
    assert "oops" in result.stdout
    assert result.stdout.replace("\n", "").isprintable()
