"""Reads a topic by Spark with each of the settings given as JSON: a line of JSON for each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from marq.spark import session
from marq.spark.java_settings import java_settings


def main(directory: Path, topic: str, clients: list[tuple[str, dict[str, str]]]) -> None:
    spark = session.start("local[1]", "reads", directory, {})
    for servers, settings in clients:
        options = {
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            **{f"kafka.{name}": value for name, value in java_settings(settings).items()},
        }
        rows = spark.read.format("kafka").options(**options).load().select("value").collect()
        print(json.dumps([bytes(row.value).decode() for row in rows]), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.load(sys.stdin))
