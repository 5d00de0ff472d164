"""How `marq worker` finds its queues, works in one process and notices changes."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import marq
from marq.cli import app, logs, targets
from marq.cli.changes import Watched
from marq.errors import ConfigError, QueueError

SHOP = """
import marq
broker = marq.connect("memory://")
orders, bills = broker.queue("orders"), broker.queue("bills")
other = marq.connect("memory://").queue("other")
number = 7

class Shop:
    orders = orders

@orders.handler()
def charge(order: bytes) -> None: ...
"""

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a module to the current directory; each has a name of its own, for Python keeps it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(code: str) -> str:
        name = f"shop_{tmp_path.name}_{len(list(tmp_path.iterdir()))}"
        (tmp_path / f"{name}.py").write_text(code)
        return name

    return write


def refused(target: str) -> str:
    with pytest.raises(ConfigError) as error:
        targets.find([target])
    return str(error.value)


def worker(*words: str) -> Result:
    return CliRunner().invoke(app, ["worker", *words])


# Finding queues.


def test_queues_are_found_by_name_and_by_path(write: Write) -> None:
    shop = write(SHOP)

    found = targets.find([f"{shop}:orders", f"{shop}:Shop.orders", f"{shop}:bills"])

    assert [queue.name for queue in found] == ["orders", "orders", "bills"]
    assert targets.owner(found).queues() == ["bills", "orders"]
    assert targets.file_of(f"{shop}:orders") == str(Path.cwd() / f"{shop}.py")


def test_dead_letters_can_be_worked_on_too() -> None:
    with marq.connect("memory://") as broker:
        assert targets.owner([broker.queue("orders").dead_letters]) is broker


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (":order", "is not there"),
        (":number", "is int, not a queue"),
        (":Shop.bills", "is not there"),
        ("", "names no queue"),
    ],
)
def test_what_is_no_queue_is_answered_with_the_queues_there_are(
    write: Write, path: str, said: str
) -> None:
    shop = write(SHOP)

    assert refused(shop + path) == (
        f"{shop}{path} {said}: there is {shop}:orders, {shop}:bills, {shop}:other"
    )


def test_a_module_without_queues_is_told_how_to_make_one(write: Write) -> None:
    assert "make one there with broker.queue(...)" in refused(write("x = 1") + ":x")


@pytest.mark.parametrize("target", ["nowhere_at_all:orders", "json.nowhere:orders"])
def test_a_missing_module_is_told(write: Write, target: str) -> None:
    assert "there is no module" in refused(target)


@pytest.mark.parametrize("target", [":orders", "app.py:orders", "./app:orders", "", ".app:x"])
def test_what_names_no_module_is_refused(write: Write, target: str) -> None:
    assert "name a module and its queue, like app:orders" in refused(target)


@pytest.mark.parametrize("code", ["def", "import nowhere_at_all", "from json import nothing"])
def test_a_module_that_cannot_be_imported_shows_where(
    write: Write, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = write(code)

    assert refused(f"{shop}:orders").startswith(f"importing {shop} failed: ")
    shown = capsys.readouterr().err
    assert f'{shop}.py", line 1' in shown
    assert "importlib" not in shown


def test_a_module_that_fails_may_be_tried_again(write: Write) -> None:
    with pytest.raises(QueueError, match="RuntimeError: the database is away") as error:
        targets.find([write("raise RuntimeError('the database is away')") + ":orders"])

    assert not isinstance(error.value, ConfigError)


def test_queues_of_two_brokers_are_refused(write: Write) -> None:
    shop = write(SHOP)

    with pytest.raises(ConfigError, match="belong to different brokers"):
        targets.owner(targets.find([f"{shop}:orders", f"{shop}:other"]))


# Working here.


def test_a_queue_without_a_handler_is_wrong_use(write: Write) -> None:
    result = worker(write(SHOP) + ":bills")

    assert result.exit_code == 2
    assert "queue 'bills' has no handler" in result.stderr


def test_one_process_works_here_until_sigterm(write: Write, tmp_path: Path) -> None:
    shop = write(
        "import marq, pathlib\n"
        "orders = marq.connect('memory://').queue('orders')\n"
        "orders.handler()(lambda order: pathlib.Path('done').write_bytes(order))\n"
        "orders.send(b'1')\n"
    )

    def stop_when_done() -> None:
        wait_until((tmp_path / "done").exists)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_when_done, daemon=True).start()
    result = worker(f"{shop}:orders")

    assert result.exit_code == 0
    assert f"works on {shop}:orders" in result.stderr
    assert (tmp_path / "done").read_bytes() == b"1"


def wait_until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


# Changes.


def test_a_file_that_is_changed_made_or_deleted_is_noticed(tmp_path: Path) -> None:
    file, other = tmp_path / "app.py", tmp_path / "sub" / "more.py"
    other.parent.mkdir()
    file.write_text("1")
    watched = Watched(tmp_path)
    assert watched.changed() is None

    os.utime(file, ns=(1, 1))
    assert watched.changed() == str(file)
    other.write_text("2")
    assert watched.changed() == str(other)
    other.unlink()
    assert watched.changed() == str(other)
    assert watched.changed() is None


def test_what_is_not_the_user_s_code_is_not_watched(tmp_path: Path) -> None:
    for name in (".git", "__pycache__", "env/lib"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    watched = Watched(tmp_path)

    for name in (".git/a.py", "__pycache__/a.py", "env/lib/a.py", "notes.txt"):
        (tmp_path / name).write_text("1")

    assert watched.changed() is None


def test_a_file_elsewhere_is_watched_once_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    file = tmp_path / "app.py"
    file.write_text("1")
    watched = Watched(tmp_path / "here")
    watched.add([str(file)])
    assert watched.changed() is None

    os.utime(file, ns=(1, 1))

    assert watched.changed() == str(file)


# Logging.


def test_a_log_line_carries_what_the_record_carries() -> None:
    record = logging.makeLogRecord(
        {"name": "marq.worker", "msg": "handler failed", "levelname": "WARNING", "queue": "orders"}
    )

    shown = logs.Formatter("%(levelname)s %(name)s: %(message)s").format(record)

    assert shown == "WARNING marq.worker: handler failed queue=orders"
