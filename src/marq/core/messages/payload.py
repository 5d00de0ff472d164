"""Payloads: what users hand in, as bytes and a content type, and back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from pydantic import BaseModel

from marq.core.messages.header import Headers
from marq.errors import PayloadError

CONTENT_TYPE = "content-type"
_TEXT = b"text/plain; charset=utf-8"
_JSON = b"application/json"


def encode(value: Any) -> tuple[bytes, bytes | None]:
    """The payload's bytes and content type; plain bytes have none."""
    match value:
        case bytes():
            return value, None
        case bytearray() | memoryview():
            return bytes(value), None
    try:
        match value:
            case str():
                return value.encode(), _TEXT
            case BaseModel():
                return value.model_dump_json().encode(), _JSON
        return msgspec.json.encode(value), _JSON
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise PayloadError(
            f"a payload is bytes, str, a Struct, dataclass, pydantic model or a JSON value, "
            f"not {type(value).__name__}: {error}",
            kind=type(value).__name__,
        ) from None


def decode(data: bytes, content_type: bytes | None, wanted: Any = None) -> Any:
    """The payload as its content type says, as the type wanted; `PayloadError` if it is not."""
    if wanted in (None, Any):
        return _as_sent(data, content_type)
    try:
        if wanted is bytes:
            return data
        if wanted is str:
            return data.decode()
        if isinstance(wanted, type) and issubclass(wanted, BaseModel):
            return wanted.model_validate_json(data)
        return msgspec.json.decode(data, type=wanted)
    except Exception as error:  # whatever a stranger's bytes bring about in a stranger's type
        name = getattr(wanted, "__name__", str(wanted))
        raise PayloadError(
            f"the payload of {len(data)} bytes is not a {name}: {_first_line(error)}",
            kind=name,
            size=len(data),
        ) from None


def _as_sent(data: bytes, content_type: bytes | None) -> Any:
    if content_type not in (_TEXT, _JSON):
        return data
    try:
        return data.decode() if content_type == _TEXT else json.loads(data)
    except Exception as error:
        kind = content_type.decode()
        raise PayloadError(
            f"the payload of {len(data)} bytes is not the {kind} it says it is: "
            f"{_first_line(error)}",
            kind=kind,
            size=len(data),
        ) from None


def content_type(headers: Headers) -> bytes | None:
    """The content type among these headers."""
    return next((value for name, value in headers if name == CONTENT_TYPE), None)


def _first_line(error: Exception) -> str:
    try:
        return str(error).splitlines()[0]
    except Exception:  # no text, or none that can be told
        return type(error).__name__
