"""The worked example of the page about ordered groups runs."""

from __future__ import annotations

from typing import Any

import pytest

from marq import embedded
from tests.unit.test_docs import ROOT, blocks

pytestmark = [pytest.mark.java, pytest.mark.kafka]


def test_the_code_of_the_page_about_groups_runs_from_top_to_bottom(
    kafka: embedded.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARQ_URL", f"kafka://{kafka.bootstrap_servers}")
    page = "docs/groups.md"
    namespace: dict[str, Any] = {"__name__": "__main__"}

    for block in blocks(ROOT / page):
        if block.info == "python":
            source = "\n" * block.line + block.code
            exec(compile(source, page, "exec", dont_inherit=True), namespace)
