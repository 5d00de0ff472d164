"""The documentation holds: its code runs, its links lead somewhere, its commands exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

import marq
from marq.cli import app

ROOT = Path(__file__).parents[2]
PAGES = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")))
USERS_PAGES = [page for page in PAGES if page.name != "design.md"]
"""The design also names commands that are still to come."""

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?marq((?: +[\w./=:-]+)*)")


class Block(NamedTuple):
    """A fenced block of a page."""

    info: str
    code: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in _FENCE.finditer(text):
        yield Block(found[1].strip(), found[2], text.count("\n", 0, found.start()) + 1)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def run(page: str, kind: str, says: Callable[[str], str] = str) -> dict[str, Any]:
    """Run the blocks of a kind from top to bottom; what they defined."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(ROOT / page):
        if block.info == kind:
            # The empty lines make a traceback name the page's own line.
            source = "\n" * block.line + says(block.code)
            exec(compile(source, page, "exec", dont_inherit=True), namespace)
    return namespace


RUNNING = ["README.md", "docs/guide.md", *sorted(map(name, ROOT.glob("docs/how-to/*.md")))]


@pytest.mark.parametrize("page", RUNNING)
def test_the_code_of_a_page_runs_from_top_to_bottom(page: str) -> None:
    namespace = run(page, "python")
    for test in [value for key, value in namespace.items() if key.startswith("test_")]:
        with marq.connect("memory://") as broker:
            test(broker)


def test_the_first_code_of_the_readme_is_the_hello_world_of_the_examples() -> None:
    hello = next(block.code for block in blocks(ROOT / "README.md") if block.info == "python")

    assert hello == (ROOT / "examples/hello.py").read_text()
    assert len(hello.splitlines()) <= 10


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made of their text."""
    text = _FENCE.sub("", page.read_text())
    plain = (re.sub(r"[^\w\s-]", "", heading).strip() for heading in _HEADING.findall(text))
    return {heading.lower().replace(" ", "-") for heading in plain}


def links(page: Path) -> Iterator[str]:
    for target in _LINK.findall(_SPAN.sub("", _FENCE.sub("", page.read_text()))):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page

        assert target.exists(), f"{name(page)} links to {link}, which is not there"
        assert not anchor or anchor in anchors(target), f"{name(page)}: no heading for {link}"


def commands(page: Path) -> Iterator[list[str]]:
    """The words after `marq` wherever the page names a command."""
    shells = (block.code for block in blocks(page) if block.info in ("sh", "console", "bash"))
    lines = [line for code in shells for line in code.splitlines()]
    for said in (*lines, *_SPAN.findall(_FENCE.sub("", page.read_text()))):
        if found := _COMMAND.match(said):
            yield found[1].split()


@pytest.mark.parametrize("page", USERS_PAGES, ids=name)
def test_every_command_named_exists_with_its_options(page: Path) -> None:
    marq_itself: Any = typer.main.get_command(app)
    for words in commands(page):
        command = marq_itself
        rest = list(words)
        while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, f"{name(page)}: no command marq {' '.join(words)}"
            command = command.commands[rest.pop(0)]
        options = {option for each in command.params for option in each.opts}
        known = options | {option for each in command.params for option in each.secondary_opts}

        assert {word for word in rest if word.startswith("--")} <= known | {"--help"}, (
            f"{name(page)}: {words}"
        )


def test_the_site_has_every_page_and_every_public_name() -> None:
    """What `make docs` builds, strictly; that it does is not tried here."""
    pages = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}
    shown = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    api = (ROOT / "docs" / "api.md").read_text()
    named = set(re.findall(r"^::: marq\.(\w+)$", api, re.MULTILINE))

    assert sorted(shown) == sorted(pages)
    assert {each for each in marq.__all__ if each not in named} == {
        each for each in marq.__all__ if hasattr(marq.errors, each)
    }


def test_every_file_that_the_design_names_is_there() -> None:
    said = _FENCE.sub("", (ROOT / "docs" / "design.md").read_text())
    paths = re.findall(r"`((?:[\w-]+/)+(?:[\w-]+\.[a-z]+)?)`", said)

    assert paths
    for path in paths:
        assert (ROOT / path).exists() or (ROOT / "src" / "marq" / path).exists(), path
