"""Who is not let in is told at once which setting has to change."""

from __future__ import annotations

import logging
import time

import pytest

import marq
from marq.errors import ConfigError
from marq.kafka.client import doors
from tests.kafka.secured import roles
from tests.kafka.secured.authority import Authority
from tests.kafka.secured.cluster import Secured, Settings
from tests.kafka.secured.relay import Relay

pytestmark = [pytest.mark.java, pytest.mark.kafka]


def wrong(secured: Secured, other: Authority) -> dict[str, tuple[str, Settings, str]]:
    """By name: where to, with what settings, and what is to be said."""
    by_password = secured.login("app")
    by_certificate = secured.shown(secured.authority.identity("someone"))
    nothing_shown = {
        name: value
        for name, value in by_certificate.items()
        if name in ("security.protocol", "ssl.ca.location")
    }
    expired = secured.shown(secured.authority.identity("expired", expired=True))
    foreign = secured.shown(other.identity("foreign"))
    elsewhere = secured.servers.replace("127.0.0.1", "localhost")
    trusts_other = {**by_password, "ssl.ca.location": str(other.certificate)}
    return {
        # First: it is told from what was not heard, and all clients of a cluster share its door.
        "no TLS": (secured.servers, {"security.protocol": "PLAINTEXT"}, "security.protocol"),
        "password": (secured.servers, {**by_password, "sasl.password": "x"}, "sasl.password"),
        "user": (secured.servers, {**by_password, "sasl.username": "x"}, "sasl.username"),
        "mechanism": (
            secured.servers,
            {**by_password, "sasl.mechanism": "PLAIN"},
            "set sasl.mechanism to one of SCRAM-SHA-512,OAUTHBEARER",
        ),
        "authority": (secured.servers, trusts_other, "ssl.ca.location"),
        "host name": (elsewhere, by_password, "the address must be a name"),
        "no certificate": (secured.mutual, nothing_shown, "ssl.certificate.location"),
        "expired": (secured.mutual, expired, "ssl.certificate.location"),
        "foreign": (secured.mutual, foreign, "ssl.certificate.location"),
    }


def test_each_wrong_credential_is_told_at_once_by_the_setting_to_change(
    secured: Secured, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    other = Authority(tmp_path_factory.mktemp("other") / "ca")
    doors.of.cache_clear()  # what another test heard here a moment ago
    told: dict[str, tuple[str, str]] = {}

    for name, (servers, settings, said) in wrong(secured, other).items():
        with caplog.at_level(logging.WARNING), pytest.raises(ConfigError) as refused:
            marq.connect(f"kafka://{servers}", kafka=settings, connect_timeout="10m")
        told[name] = (said, str(refused.value))

    assert {name: said in told for name, (said, told) in told.items()} == dict.fromkeys(told, True)


def test_an_account_is_not_locked_by_a_process_that_has_the_wrong_password(
    secured: Secured,
) -> None:
    settings = {**secured.login("app"), "sasl.password": "x"}

    with Relay(secured.password_port) as relay, pytest.raises(ConfigError, match=r"sasl\.password"):
        marq.connect(f"kafka://127.0.0.1:{relay.port}", kafka=settings, connect_timeout="10m")

    assert 1 <= relay.connections <= FEW


FEW = 3
"""Accounts are locked after five failed logins, as a rule."""


def test_a_password_that_is_changed_while_a_process_runs_is_told_at_once(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    doors.of.cache_clear()  # what is told once a minute was told in another test
    secured.allow("changing", *roles.operator())
    url, settings = f"kafka://{secured.servers}", secured.login("changing")
    with marq.connect(url, kafka=settings, connect_timeout="10m") as broker:
        queue = broker.queue("changing", partitions=1)
        queue.send(b"1")
        secured.change_password("changing", "another")
        began = time.monotonic()

        with caplog.at_level(logging.WARNING), pytest.raises(ConfigError, match=r"sasl\.password"):
            list(broker.backend.peek("changing", 1))

        assert time.monotonic() - began < SOON_S
        queue.send(b"2")  # by a connection that is there already
    assert [each for each in caplog.records if each.getMessage() == "not let in"]
    with marq.connect(url, kafka=secured.login("changing")) as broker:
        assert broker.queue("changing").receive(wait="60s")


SOON_S = 20.0
