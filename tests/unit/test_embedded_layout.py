"""What a runtime's directory keeps, and which directories and ports are refused."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from marq.embedded import files, layout, ports
from marq.embedded.config import server_properties
from marq.embedded.layout import Layout, WantedLayout
from marq.errors import ConfigError, RuntimeFailed

ANY = WantedLayout(None, None)


@pytest.fixture
def home(tmp_path: Path) -> files.RuntimeHome:
    return files.RuntimeHome(tmp_path)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port someone listens on: this process."""
    with socket.socket() as listener:
        listener.bind((ports.HOST, 0))
        listener.listen()
        yield listener.getsockname()[1]


def settle(home: files.RuntimeHome, wanted: WantedLayout = ANY) -> Layout:
    return layout.settle(home, wanted, random.Random(7))


def test_a_new_runtime_has_one_broker_and_keeps_its_ports(home: files.RuntimeHome) -> None:
    made = settle(home)

    assert len(made.nodes) == 1
    assert settle(home) == layout.read(home) == made


def test_three_brokers_have_six_different_ports(home: files.RuntimeHome) -> None:
    made = settle(home, WantedLayout(3, None))

    numbers = {number for node in made.nodes for number in (node.port, node.controller_port)}
    assert len(numbers) == 6
    assert made.bootstrap_servers.count(",") == 2


def test_another_number_of_brokers_than_the_directory_has_is_refused(
    home: files.RuntimeHome,
) -> None:
    settle(home, WantedLayout(3, None))

    with pytest.raises(ConfigError, match=r"made with 3 broker\(s\), not 1"):
        settle(home, WantedLayout(1, None))


def test_a_kept_port_that_someone_took_is_replaced(home: files.RuntimeHome) -> None:
    made = settle(home)
    with socket.socket() as other:
        other.bind((ports.HOST, made.nodes[0].port))
        other.listen()
        again = settle(home)

    assert again.nodes[0].port != made.nodes[0].port
    assert again.cluster_id == made.cluster_id


def test_a_port_that_was_asked_for_is_never_replaced(home: files.RuntimeHome, taken: int) -> None:
    with pytest.raises(RuntimeFailed, match=rf"port {taken} is taken by process \d+ \(.+\)"):
        settle(home, WantedLayout(None, taken))

    assert not home.layout.exists()


def test_a_port_asked_for_once_is_meant_for_later_starts_too(home: files.RuntimeHome) -> None:
    (port,) = ports.choose(1, random.Random())
    settle(home, WantedLayout(None, port))
    with socket.socket() as other:
        other.bind((ports.HOST, port))
        other.listen()

        with pytest.raises(RuntimeFailed, match=f"port {port} is taken"):
            settle(home)


def test_joining_on_another_port_is_refused(home: files.RuntimeHome) -> None:
    made = settle(home)

    with pytest.raises(ConfigError, match="listens on port"):
        layout.check(made, WantedLayout(None, made.nodes[0].port + 1))


def test_a_foreign_directory_is_refused_and_left_alone(home: files.RuntimeHome) -> None:
    (home.path / "thesis.txt").write_text("mine")

    with pytest.raises(ConfigError, match="not empty and not a marq runtime"):
        layout.read(home)

    assert [entry.name for entry in home.path.iterdir()] == ["thesis.txt"]


def test_a_file_is_no_directory_for_a_runtime(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="is not a directory"):
        layout.read(files.RuntimeHome(tmp_path / "file"))


@pytest.mark.parametrize(("brokers", "port"), [(2, None), (0, None), (None, 0), (None, 70_000)])
def test_what_cannot_be_is_refused(brokers: int | None, port: int | None) -> None:
    with pytest.raises(ConfigError):
        layout.wanted(brokers, port)


def test_three_brokers_keep_three_copies_and_need_two(home: files.RuntimeHome) -> None:
    made = settle(home, WantedLayout(3, None))

    text = server_properties(made, made.nodes[1], home.data(2))

    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert settings["node.id"] == "2"
    assert settings["min.insync.replicas"] == "2"
    factors = {value for key, value in settings.items() if key.endswith("replication.factor")}
    assert factors == {"3"}
    assert settings["controller.quorum.voters"].count("@") == 3
