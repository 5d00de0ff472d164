"""One secured broker for all tests of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.secured.cluster import Secured

USERS = ("app", "tracker", "operator", "stranger", "changing")


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Secured(tmp_path_factory.mktemp("secured"), USERS).running() as cluster:
        yield cluster
