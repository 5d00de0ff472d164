"""A data directory is formatted once and never again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from marq.embedded import broker, files, layout
from marq.embedded.layout import WantedLayout
from marq.errors import RuntimeFailed


def test_data_that_kafka_cannot_read_is_refused_and_not_formatted_again(tmp_path: Path) -> None:
    home = files.RuntimeHome(tmp_path)
    made = layout.settle(home, WantedLayout(1, None), random.Random(7))
    (home.data(1) / "orders-0").mkdir(parents=True)

    with pytest.raises(RuntimeFailed, match=r"has no meta\.properties"):
        broker.format_storage(broker.Kit(Path("java"), (), home, made))

    assert [entry.name for entry in home.data(1).iterdir()] == ["orders-0"]
