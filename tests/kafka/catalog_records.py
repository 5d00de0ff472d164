"""Records in the catalog's log that no client of this release would write."""

from __future__ import annotations

import json
from typing import Any

from marq.core import names
from marq.kafka.backend import Kafka

FUTURE: dict[str, Any] = {"colour": "red"}


def write(backend: Kafka, *values: bytes | None) -> None:
    """Append them as they are."""
    producer = backend.catalog_log._producer
    for value in values:
        producer.produce(names.CATALOG, value, partition=0)
    assert producer.flush(20) == 0


def by_a_newer_one(
    backend: Kafka, name: str, kind: str = "queue", definition: object = FUTURE
) -> bytes:
    """A change by a newer release; it wins."""
    version = backend.catalog().version(kind, name) + 1
    entry = {"kind": kind, "name": name, "version": version, "definition": definition}
    value = json.dumps(entry).encode()
    write(backend, value)
    return value
