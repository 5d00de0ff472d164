"""What a process has of a cluster: the clients that every use of a queue needs."""

from __future__ import annotations

from functools import partial

from marq.core.names import Space
from marq.kafka.client import config
from marq.kafka.client.config import Config
from marq.kafka.client.making import Consumer, warm_producer
from marq.kafka.cluster import topics
from marq.kafka.cluster.admin import Admin
from marq.kafka.cluster.catalog_log import CatalogLog
from marq.kafka.cluster.reader import LogReader
from marq.kafka.cluster.stats_log import StatsReader


class Connection:
    """Made when it is needed: of a process that forks, each child has its own."""

    def __init__(
        self,
        servers: str,
        extra: Config,
        space: Space,
        timeout_s: float,
        *,
        hold_log_partitions: int,
        by_tracker: bool,
    ) -> None:
        self.admin = Admin(config.common(servers, extra), timeout_s)
        self.replicas = min(3, self.admin.brokers())
        self.markers_partitions = topics.lay_out(
            self.admin, self.replicas, space, hold_log_partitions, by_tracker=by_tracker
        )
        reading = config.reader(servers, extra)
        self.reader = LogReader(reading, self.admin, timeout_s)
        self.stats = StatsReader(reading, space.stats, timeout_s)
        self.catalog_log = CatalogLog(
            # Behind a fetch that waits for more the question where the log ends would wait as well.
            Consumer({**reading, "fetch.wait.max.ms": 5}),
            partial(warm_producer, config.producer(servers, extra, 0)),
            servers,
            space.catalog,
            timeout_s,
        )

    def close(self) -> None:
        self.stats.close()
        self.catalog_log.close()
