"""What mkdocs must be told of pages that are also read as files: see mkdocs.yml."""

from __future__ import annotations

import re
from typing import Any

_KIND = re.compile(r"^(\s*```python) (?:no-run|kafka)$", re.MULTILINE)
"""Of a block that tests run otherwise, or not at all: nothing a reader needs to know."""
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./(?:README|CHANGELOG|CONTRIBUTING)\.md[^)]*\)")
"""A link to a page that is no part of the site, from a page of its first level."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page as the site has it."""
    return _OUTSIDE.sub(r"\1", _KIND.sub(r"\1", markdown))
