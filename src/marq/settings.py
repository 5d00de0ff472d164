"""Settings: MARQ_* environment, marq.toml, keyword arguments, in rising order."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from marq.core.duration import milliseconds
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


def _librdkafka_names(value: Any) -> Any:
    """MARQ_KAFKA__SASL_USERNAME is librdkafka's sasl.username."""
    if not isinstance(value, dict):
        return value
    return {str(name).lower().replace("_", "."): each for name, each in value.items()}


DurationMs = Annotated[int, BeforeValidator(_duration_ms)]
KafkaSettings = Annotated[dict[str, str | int | float | bool], BeforeValidator(_librdkafka_names)]


class Settings(BaseSettings):
    """What a process can be told from outside."""

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
    cache_dir: Path | None = Field(None, description="where the embedded broker's jars are kept")
    kafka: KafkaSettings = Field(default={}, description="more settings for librdkafka")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, TomlConfigSettingsSource(settings_cls), env_settings


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
        "environment": EnvSettingsSource(Settings)(),
        str(FILE): TomlConfigSettingsSource(Settings)(),
        "argument": InitSettingsSource(Settings, given)(),
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
