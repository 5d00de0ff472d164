"""What Spark forks its Python workers from: all they need is loaded once, and not in each."""

from __future__ import annotations

import gc

import pyspark.sql.pandas.serializers
import pyspark.sql.streaming.stateful_processor_util
import pyspark.worker
from pyspark import daemon

import marq.spark.acting
import marq.spark.folding
from marq.spark import state_connection

LOADED = (
    marq.spark.acting,
    marq.spark.folding,
    pyspark.sql.pandas.serializers,
    pyspark.sql.streaming.stateful_processor_util,
    pyspark.worker,
)

if __name__ == "__main__":
    state_connection.leave_closing_to_the_jvm()
    # Workers collect garbage after every task: not all that was loaded here, each time again.
    gc.collect()
    gc.freeze()
    daemon.manager()
