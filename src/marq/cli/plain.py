"""Text of anybody's making as a terminal may show it: text, and nothing the terminal obeys.

Payloads, keys, headers, reasons and names of workers come from whoever wrote to the queue. What is
not printable (escape sequences, bells, marks that turn the direction of writing) is shown as its
escape, and brackets are brackets and no markup.
"""

from __future__ import annotations

import re

from rich.text import Text

_LINES = "\n\t"


def text(value: str, keep: str = "") -> str:
    """The same with all that is not printable escaped, but for the characters to `keep`."""
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in value)


def lines(value: str) -> str:
    """The same of a text that may have several lines."""
    return text(value, _LINES)


def styled(value: object, style: str = "") -> Text:
    """A cell or line for rich that is shown as it is."""
    return Text(text(str(value)), style=style)


def json(encoded: str) -> str:
    """The JSON with what is not printable escaped: outside of its texts there is no such thing."""
    if encoded.isprintable():
        return encoded
    return re.sub(r"[^ -~]", lambda found: _json_escaped(found.group()), encoded)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _json_escaped(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
