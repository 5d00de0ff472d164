"""Where the demo speaks."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

console = Console(highlight=False, soft_wrap=True)


def title(text: str) -> None:
    """Begin a part."""
    console.rule(f"[bold]{text}", align="left")


def say(text: str) -> None:
    """One line of what is seen."""
    console.print(f"  {text}", markup=False)


@dataclass(slots=True)
class Summary:
    """What was seen, to be read at the end."""

    rows: dict[str, str] = field(default_factory=dict)

    def add_row(self, what: str, seen: str) -> None:
        """One line more."""
        self.rows[what] = seen

    def table(self) -> Table:
        """For eyes."""
        table = Table("what", "seen", title="summary", title_justify="left")
        for what, seen in self.rows.items():
            table.add_row(what, seen)
        return table
