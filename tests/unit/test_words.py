"""A name means one thing in the whole tree."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import marq

SOURCES = Path(marq.__file__).parent


def defined(tree: ast.Module) -> Iterator[str]:
    """The public classes and type aliases of a module."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id


def test_a_class_or_type_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES.rglob("*.py"):
        for name in defined(ast.parse(path.read_text())):
            if name[0].isupper() and not name.isupper() and len(name) > 1:
                places[name].append(str(path.relative_to(SOURCES)))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}
