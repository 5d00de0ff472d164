"""What tests of all kinds share: the one real broker of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from marq import embedded


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.Runtime]:
    """A real single broker, started when the first test asks and stopped at the end of the run."""
    directory = tmp_path_factory.mktemp("kafka")
    # Without a tracker: who wants one starts it. It ends with this process, even a killed one.
    runtime = embedded.start(directory, tracker=False, parent=os.getpid())
    yield runtime
    runtime.stop()
