"""Which runtime `marq up`, `down` and `status` are about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from marq.cli import app
from marq.embedded import files


def shown(*options: str) -> str:
    result = CliRunner().invoke(app, ["status", "--json", *options])
    assert result.exit_code == 0, result.output
    return str(json.loads(result.output)["directory"])


def test_it_is_the_one_that_the_setting_url_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARQ_URL", f"embedded://{tmp_path}/mine")

    assert shown() == f"{tmp_path}/mine"
    assert shown("--data", f"{tmp_path}/other") == f"{tmp_path}/other"


@pytest.mark.parametrize("url", ["embedded://", "kafka://127.0.0.1:1", "memory://x"])
def test_it_is_the_user_s_own_where_none_is_named(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("MARQ_URL", url)

    assert shown() == str(files.default_home())
