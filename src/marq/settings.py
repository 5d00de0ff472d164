"""Settings: MARQ_* environment, marq.toml, keyword arguments, in rising order."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypedDict

from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from marq.core.duration import Duration, milliseconds
from marq.errors import ConfigError

FILE = Path("marq.toml")
PREFIX = "MARQ_"
_ELSEWHERE = frozenset({"MARQ_EXAMPLES"})
"""Variables of the same prefix that are no settings: they belong to the project's own tests."""


def _duration_ms(value: Any) -> int:
    # An environment variable is always text: "30" is 30 seconds there too.
    if isinstance(value, str) and value.replace(".", "", 1).isdigit():
        value = float(value)
    try:
        return milliseconds(value, "it")
    except ConfigError as error:
        raise ValueError(str(error)) from None


class ConnectOptions(TypedDict, total=False):
    """The settings as arguments of `marq.connect`, beside its URL."""

    connect_timeout: Duration
    """How long to wait for a broker before giving up; 30 seconds."""
    drain_timeout: Duration
    """How long handlers may go on when a worker is told to stop; 30 seconds."""
    max_delay: Duration
    """The longest delay of a message; 30 days."""
    namespace: str
    """Whose logs and queues, where a cluster is shared by teams."""
    hold_log_partitions: int
    """How many partitions the logs of marq's own have, when they are first made; 4."""
    cache_dir: str | Path | None
    """Where the embedded broker's jars are kept."""
    kafka: Mapping[str, Any]
    """More settings for librdkafka, such as `{"sasl.username": "shop"}`."""


_AS_DURATION = BeforeValidator(_duration_ms)
DurationMs = Annotated[int, _AS_DURATION]

_SECRET = re.compile(r"password|passphrase|secret|jaas|\.config$|\.pem$")
"""Librdkafka's settings whose values are nobody's to read."""
_IN_URL = re.compile(r"(?<=://)[^/].*@")
"""To the last `@`: a password may have one, or a slash, that nobody has written as `%40`."""
HIDDEN = "***"
_ALIASES = {"sasl.mechanisms": "sasl.mechanism"}
"""Two names of one setting: else both would be given, and which of them counts nobody knows."""
_SERVERS = ("bootstrap.servers", "metadata.broker.list")


def _flat(given: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        full = prefix + str(name).lower().replace("_", ".")
        if isinstance(value, dict):
            yield from _flat(value, f"{full}.")
        else:
            yield _ALIASES.get(full, full), value


def _named(found: dict[str, Any]) -> dict[str, Any]:
    """What a source holds, with librdkafka's names for Kafka settings. Before sources are put
    together, so that one wins over another's: MARQ_KAFKA__SASL_USERNAME,
    `kafka={"sasl_username": ...}` and `[kafka] sasl.username`, which TOML takes for a table, are
    all sasl.username."""
    given = found.get("kafka")
    return {**found, "kafka": dict(_flat(given))} if isinstance(given, dict) else found


class _Arguments(InitSettingsSource):
    def __call__(self) -> dict[str, Any]:
        return _named(super().__call__())


class _File(TomlConfigSettingsSource):
    def __call__(self) -> dict[str, Any]:
        return _named(super().__call__())


class _Environment(EnvSettingsSource):
    def __call__(self) -> dict[str, Any]:
        return _named(super().__call__())


class Settings(BaseSettings):
    """The settings of a process: from the environment, marq.toml and keyword arguments."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        toml_file=FILE,
        frozen=True,
        extra="forbid",
        validate_default=False,
    )

    url: str = Field("embedded://", description="what to connect to")
    connect_timeout: DurationMs = Field(
        30_000, description="how long to wait for a broker before giving up"
    )
    drain_timeout: DurationMs = Field(
        30_000, description="how long handlers may go on when a worker is told to stop"
    )
    max_delay: DurationMs = Field(30 * 86_400_000, description="the longest delay of a message")
    namespace: str = Field(
        "", description="whose logs and queues, where a cluster is shared by teams"
    )
    hold_log_partitions: int = Field(
        4, ge=1, le=64, description="how many the logs of marq's own have, when they are first made"
    )
    cache_dir: Path | None = Field(None, description="where the embedded broker's jars are kept")
    kafka: dict[str, str | int | float | bool] = Field(
        default={}, description="more settings for librdkafka"
    )

    @field_validator("url", "kafka")
    @classmethod
    def _can_be_told_to_librdkafka(cls, value: Any) -> Any:
        # A variable whose bytes are no UTF-8, for example: the binding crashes on some of these.
        texts = [value] if isinstance(value, str) else [*value, *map(str, value.values())]
        if any(_has_no_utf8(text) for text in texts):
            raise ValueError("must be text that has UTF-8")
        return value

    @field_validator("kafka")
    @classmethod
    def _no_servers(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Some clients would go there, and others where the URL says."""
        for name in _SERVERS:
            if name in given:
                raise ValueError(
                    f"{name!r} is the URL's to say, like kafka://host1:9092,host2:9092"
                )
        return given

    def shown(self, name: str) -> Any:
        """The setting's value without what is secret in it: all that may be printed."""
        value = getattr(self, name)
        if isinstance(value, dict):
            return {k: HIDDEN if _SECRET.search(k) else _printable(v) for k, v in value.items()}
        return _printable(value)

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        yield from ((name, self.shown(name)) for name in type(self).model_fields)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        assert isinstance(init_settings, InitSettingsSource)
        given = init_settings.init_kwargs
        return _Arguments(settings_cls, given), _File(settings_cls), _Environment(settings_cls)


def _has_no_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _printable(value: Any) -> Any:
    return without_credentials(value) if isinstance(value, str) else value


def is_duration(name: str) -> bool:
    """Whether the setting is a time in milliseconds."""
    return _AS_DURATION in Settings.model_fields[name].metadata


def without_credentials(url: str) -> str:
    """The URL as it may be printed."""
    return _IN_URL.sub(f"{HIDDEN}@", url)


def load(**given: Any) -> Settings:
    """The settings in force; `ConfigError` in one sentence if one of them is wrong."""
    refuse_unknown_variables()
    try:
        return Settings(**given)
    except ValidationError as error:
        raise ConfigError(_sentence(error)) from None
    except SettingsError as error:  # a variable that should hold JSON does not
        raise ConfigError(f"a setting cannot be read: {error}") from None
    except ValueError as error:  # marq.toml is not TOML
        raise ConfigError(f"{FILE} cannot be read: {error}") from None


def origins(**given: Any) -> dict[str, str]:
    """For each setting, where its value comes from."""
    sources: dict[str, dict[str, Any]] = {
        "environment": _Environment(Settings)(),
        str(FILE): _File(Settings)(),
        "argument": _Arguments(Settings, given)(),
    }
    found = dict.fromkeys(Settings.model_fields, "default")
    for origin, values in sources.items():
        found.update(dict.fromkeys(values.keys() & found.keys(), origin))
    return found


def refuse_unknown_variables() -> None:
    """A mistyped variable would be ignored in silence otherwise."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for variable in sorted(os.environ):
        setting = variable.split("__")[0]
        if variable.startswith(PREFIX) and setting not in known and variable not in _ELSEWHERE:
            raise ConfigError(f"no setting is called {variable}{_hint(variable, known)}")


def _hint(name: str, known: set[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f": did you mean {close[0]}?" if close else f": there are {', '.join(sorted(known))}"


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no setting {name!r}{_hint(name, set(Settings.model_fields))}"
    reason = first["msg"].removeprefix("Value error, ").removeprefix("it ")
    return f"the setting {name!r} is wrong: {reason}"
