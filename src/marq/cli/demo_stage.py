"""Where the demo speaks."""

from __future__ import annotations

from rich.console import Console

console = Console(highlight=False, soft_wrap=True)


def title(text: str) -> None:
    """Begin a part."""
    console.rule(f"[bold]{text}", align="left")


def say(text: str) -> None:
    """One line of what is seen."""
    console.print(f"  {text}", markup=False)
