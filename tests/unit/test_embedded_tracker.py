"""The tracker as the embedded runtime starts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from marq.embedded import tracker


def test_the_tracker_does_not_see_the_settings_of_who_started_the_runtime() -> None:
    seen = tracker.environment(
        {"MARQ_URL": "kafka://elsewhere", "MARQ_KAFKA__SASL_USERNAME": "me", "HOME": "/home/me"}
    )

    assert [name for name in seen if name.startswith("MARQ_")] == ["MARQ_CACHE_DIR"]
    assert seen["HOME"] == "/home/me"


def test_the_user_s_own_java_options_come_last_and_win() -> None:
    seen = tracker.environment({"JDK_JAVA_OPTIONS": "-Xmx4g"})

    assert seen["JDK_JAVA_OPTIONS"].endswith(" -Xmx4g")


def test_the_log_never_has_more_than_the_last_part_and_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker, "LOG_LIMIT", 10)
    log = tmp_path / "tracker.log"

    for number in range(9):
        tracker.append(log, b"line %d\n" % number)

    assert log.read_text() == "line 8\n"
    assert (tmp_path / "tracker.log.1").read_text() == "line 6\nline 7\n"


def test_a_log_that_cannot_be_written_does_not_stop_the_reading(tmp_path: Path) -> None:
    tracker.append(tmp_path / "nowhere" / "tracker.log", b"line\n")
