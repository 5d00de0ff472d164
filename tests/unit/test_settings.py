"""Settings: environment, then marq.toml, then arguments; nothing mistyped is ignored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import marq
from marq import settings
from marq.cli import app
from marq.errors import ConfigError

Write = Callable[[str], None]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable and no marq.toml of the machine reaches these tests."""
    for name in settings.Settings.model_fields:
        monkeypatch.delenv(f"MARQ_{name.upper()}", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def toml(tmp_path: Path) -> Write:
    def write(text: str) -> None:
        (tmp_path / "marq.toml").write_text(text)

    return write


def test_without_any_setting_it_is_the_embedded_runtime() -> None:
    loaded = settings.load()

    assert loaded.url == "embedded://"
    assert (loaded.connect_timeout, loaded.drain_timeout) == (30_000, 30_000)
    assert set(settings.origins().values()) == {"default"}


def test_marq_toml_wins_over_the_environment_and_arguments_over_both(
    monkeypatch: pytest.MonkeyPatch, toml: Write
) -> None:
    monkeypatch.setenv("MARQ_URL", "memory://environment")
    monkeypatch.setenv("MARQ_CONNECT_TIMEOUT", "1s")
    monkeypatch.setenv("MARQ_DRAIN_TIMEOUT", "1s")
    toml('connect_timeout = "2s"\ndrain_timeout = "2s"\n')

    loaded = settings.load(drain_timeout="3s")

    assert (loaded.url, loaded.connect_timeout) == ("memory://environment", 2_000)
    assert loaded.drain_timeout == 3_000
    origins = settings.origins(drain_timeout="3s")
    assert {name: origins[name] for name in ("url", "connect_timeout", "drain_timeout")} == {
        "url": "environment",
        "connect_timeout": "marq.toml",
        "drain_timeout": "argument",
    }
    assert origins["max_delay"] == "default"


def test_connect_takes_its_url_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARQ_URL", "memory://")

    with marq.connect() as broker:
        assert broker.queues() == []


def test_the_url_given_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARQ_URL", "nonsense")

    marq.connect("memory://").close()


@pytest.mark.parametrize(("written", "meant_ms"), [("5", 5_000), ("0.5", 500), ("250ms", 250)])
def test_a_number_in_the_environment_is_seconds(
    monkeypatch: pytest.MonkeyPatch, written: str, meant_ms: int
) -> None:
    monkeypatch.setenv("MARQ_CONNECT_TIMEOUT", written)

    assert settings.load().connect_timeout == meant_ms


def test_settings_for_librdkafka_come_in_under_their_own_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MARQ_KAFKA__SASL_USERNAME", "me")

    assert settings.load().kafka == {"sasl.username": "me"}
    assert settings.load(kafka={"client.id": "x"}).kafka["client.id"] == "x"


def test_a_setting_for_librdkafka_is_the_same_however_it_is_written(
    monkeypatch: pytest.MonkeyPatch, toml: Write
) -> None:
    monkeypatch.setenv("MARQ_KAFKA__SASL_PASSWORD", "environment")
    monkeypatch.setenv("MARQ_KAFKA__CLIENT_ID", "environment")
    toml('[kafka]\nsasl.username = "file"\nsasl.password = "file"\n"client.id" = "file"\n')

    loaded = settings.load(kafka={"sasl_password": "argument"})

    assert loaded.kafka == {
        "sasl.username": "file",
        "sasl.password": "argument",
        "client.id": "file",
    }


def test_two_names_of_one_setting_are_one(monkeypatch: pytest.MonkeyPatch, toml: Write) -> None:
    monkeypatch.setenv("MARQ_KAFKA__SASL_MECHANISM", "PLAIN")
    toml('[kafka]\nsasl.mechanisms = "SCRAM-SHA-512"\n')

    assert settings.load().kafka == {"sasl.mechanism": "SCRAM-SHA-512"}


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata_broker_list"])
def test_servers_beside_the_url_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is the URL's to say"):
        settings.load(kafka={name: "other:9092"})


SECRETS = {
    "sasl.password": "hidden-1",
    "sasl.jaas.config": "hidden-2",
    "sasl.oauthbearer.config": "hidden-3",
    "sasl.oauthbearer.client.secret": "hidden-4",
    "ssl.key.pem": "hidden-5",
    "ssl.key.password": "hidden-6",
    "sasl.oauthbearer.token.endpoint.url": "https://me:hidden-8@host/token",
}


def test_no_secret_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "kafka://me:hidden-7@host:9092"
    for name, value in SECRETS.items():
        monkeypatch.setenv(f"MARQ_KAFKA__{name.upper().replace('.', '_')}", value)
    monkeypatch.setenv("MARQ_KAFKA__SASL_USERNAME", "shown")
    monkeypatch.setenv("MARQ_URL", url)

    loaded = settings.load()
    results = [CliRunner().invoke(app, ["config", "show", *more]) for more in ([], ["--json"])]

    assert {name: loaded.kafka[name] for name in SECRETS} == SECRETS
    for printed in (repr(loaded), str(loaded), *(result.stdout for result in results)):
        assert "shown" in printed
        assert "hidden" not in printed


@pytest.mark.parametrize(
    "url",
    [
        "kafka://me:hidden@host:9092",
        "kafak://me:hidden@host:9092",
        "kafak://me:p@hidden@host:9092",
        "kafka://me:p/hidden@host:9092",
        "kafak://me:p/hidden@host:9092",
    ],
)
def test_a_url_with_a_password_is_refused_without_printing_it(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        marq.connect(url)

    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("kafka", "said"),
    [
        ({"sasl.usernam": "me"}, "sasl.usernam"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/nowhere"}, "ssl.ca.location"),
        ({"linger.ms": "soon"}, "Invalid value"),
        ({"sasl.mechanism": "PLAIN", "security.protocol": "SASL_SSL"}, "sasl.password must be set"),
    ],
)
def test_a_kafka_setting_that_librdkafka_refuses_is_a_sentence(
    kafka: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match="Kafka settings cannot be used") as refused:
        marq.connect("kafka://127.0.0.1:9", kafka=kafka)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"drain_timout": "1s"}, "no setting 'drain_timout': did you mean drain_timeout?"),
        ({"zzz": 1}, "no setting 'zzz': there are cache_dir, connect_timeout"),
        ({"connect_timeout": "soon"}, "'connect_timeout' is wrong: must be a duration like"),
        ({"connect_timeout": -1}, "'connect_timeout' is wrong: must be between 0"),
        ({"kafka": "x"}, "'kafka' is wrong"),
        ({"kafka": {"client.id": "\ud800"}}, "'kafka' is wrong: must be text that has UTF-8"),
        ({"kafka": {"\ud800": "x"}}, "'kafka' is wrong: must be text that has UTF-8"),
    ],
)
def test_a_wrong_argument_is_refused(given: dict[str, Any], advice: str) -> None:
    with pytest.raises(ConfigError, match=advice.replace("?", r"\?")):
        marq.connect("memory://", **given)


@pytest.mark.parametrize(
    ("variable", "advice"),
    [
        ("MARQ_ULR", "no setting is called MARQ_ULR: did you mean MARQ_URL?"),
        ("MARQ_KAFAK__CLIENT_ID", "no setting is called MARQ_KAFAK__CLIENT_ID"),
        ("MARQ_", "no setting is called MARQ_"),
    ],
)
def test_a_mistyped_variable_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, advice: str
) -> None:
    monkeypatch.setenv(variable, "memory://")

    with pytest.raises(ConfigError, match=advice.replace("?", r"\?")):
        marq.connect("memory://")


def test_a_wrong_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARQ_CONNECT_TIMEOUT", "soon")

    with pytest.raises(ConfigError, match="the setting 'connect_timeout' is wrong"):
        marq.connect("memory://")


def test_a_variable_that_should_be_json_is_not_blamed_on_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MARQ_KAFKA", "client.id=x")

    with pytest.raises(ConfigError, match='for field "kafka"') as error:
        marq.connect("memory://")

    assert "marq.toml" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ('ulr = "memory://"', "no setting 'ulr': did you mean url?"),
        ('connect_timeout = "soon"', "the setting 'connect_timeout' is wrong"),
        ("url = ", "marq.toml cannot be read"),
    ],
)
def test_a_wrong_marq_toml_is_refused(toml: Write, text: str, advice: str) -> None:
    toml(text)

    with pytest.raises(ConfigError, match=advice.replace("?", r"\?")):
        marq.connect("memory://")


def test_settings_do_not_change_once_they_are_loaded() -> None:
    loaded = settings.load()

    with pytest.raises(ValueError, match="frozen"):
        setattr(loaded, "url", "memory://")  # noqa: B010 - a type checker refuses it already


def test_a_url_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="'url' is wrong: must be text that has UTF-8"):
        marq.connect("kafka://\udcff\udcfe")


def test_only_times_are_shown_as_times() -> None:
    shown = json.loads(CliRunner().invoke(app, ["config", "show", "--json"]).stdout)

    assert shown["connect_timeout"]["value"] == "30s"
    assert shown["hold_log_partitions"]["value"] == 4
