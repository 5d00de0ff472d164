"""Makes a real producer fail for good, as librdkafka's own tests do: brokers seldom do that."""

from __future__ import annotations

import ctypes
from pathlib import Path

import confluent_kafka
from confluent_kafka import KafkaError, Producer


def fail_for_good(producer: Producer) -> None:
    """After this the producer refuses every record."""
    (library,) = Path(confluent_kafka.__file__).parent.with_suffix(".libs").glob("librdkafka*.so*")
    head_bytes = object.__basicsize__  # of the Python object; librdkafka's handle comes next
    handle = ctypes.c_void_p.from_address(id(producer) + head_bytes)
    ctypes.CDLL(str(library)).rd_kafka_test_fatal_error(
        handle, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, b"for a test"
    )
