"""Queues on Kafka: not there yet. Connecting tells whether a broker answers."""

from __future__ import annotations

from marq.settings import Settings


class Kafka:
    def __init__(self, servers: str, settings: Settings) -> None:
        self.servers = servers
