"""What `marq tracker` takes."""

from __future__ import annotations

import pytest

import marq
from marq.cli.tracker import _address


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("0", ("127.0.0.1", 0)),
        ("9108", ("127.0.0.1", 9108)),
        ("0.0.0.0:9108", ("0.0.0.0", 9108)),
        ("[::]:9108", ("::", 9108)),
        ("metrics.example:9108", ("metrics.example", 9108)),
    ],
)
def test_metrics_are_for_this_machine_unless_an_address_is_named(
    given: str, meant: tuple[str, int]
) -> None:
    assert _address(given) == meant


@pytest.mark.parametrize("given", ["", "all", "9108:", "65536", "-1", "localhost"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(marq.ConfigError, match="PORT or ADDRESS:PORT"):
        _address(given)
