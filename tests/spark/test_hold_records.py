"""What Spark's fold is given of the hold logs: in a process of its own, for Spark's settings are
the process's."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

from marq.core import names

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

_PROGRAM = """
import json, sys
from datetime import datetime
from pyspark.sql import SparkSession
from marq.spark.folding import hold_records

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = [
    (topic, 0, offset, datetime(2026, 1, 1), b"value",
     None if headers is None else [(name, value.encode()) for name, value in headers])
    for offset, (topic, headers) in enumerate(json.load(sys.stdin))
]
schema = (
    "topic string, partition int, offset bigint, timestamp timestamp, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
found = hold_records(spark.createDataFrame(rows, schema), 4).sort("offset").collect()
texts = lambda row: [None if x is None else bytes(x).decode() for x in (row.marker, row.parked)]
print(json.dumps([texts(row) for row in found]))
"""


def folded(*records: tuple[str, list[tuple[str, str]] | None]) -> list[list[str | None]]:
    """Marker and parked of records of these topics with these headers."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps(records),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[str | None]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_beside_parked_messages_a_record_without_headers_is_a_marker() -> None:
    ours, theirs = ("marq", "said"), ("theirs", "x")

    found = folded(
        (names.MARKERS, None),
        (names.MARKERS, [theirs]),
        (names.DELAYED, None),
        (names.DELAYED, []),
        (names.DELAYED, [ours, theirs]),
        (names.DELAYED, [theirs, ours]),
    )

    marker, nothing_said = ["value", None], [None, ""]
    assert found == [marker, marker, marker, marker, [None, "said"], nothing_said]
