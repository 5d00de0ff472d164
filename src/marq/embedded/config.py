"""A broker's settings, as pure functions of the layout."""

from __future__ import annotations

from pathlib import Path

from marq.embedded.layout import Layout, Node
from marq.embedded.ports import HOST


def server_properties(layout: Layout, node: Node, data: Path) -> str:
    """The text of one broker's server.properties."""
    settings = {**_identity(layout, node, data), **_by_size(len(layout.nodes)), **_LAPTOP}
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def heap(brokers: int) -> str:
    """The heap of each broker: three of them share a laptop."""
    return "512m" if brokers == 1 else "384m"


def _identity(layout: Layout, node: Node, data: Path) -> dict[str, object]:
    voters = ",".join(f"{n.id}@{HOST}:{n.controller_port}" for n in layout.nodes)
    return {
        "process.roles": "broker,controller",
        "node.id": node.id,
        "listeners": f"BROKER://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}",
        "advertised.listeners": f"BROKER://{HOST}:{node.port}",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        # Static voters: the ports may change between two starts, a dynamic quorum would keep the
        # old ones in its log.
        "controller.quorum.voters": voters,
        # A backslash starts an escape in a properties file.
        "log.dirs": str(data).replace("\\", "\\\\"),
    }


def _by_size(brokers: int) -> dict[str, object]:
    in_sync = 1 if brokers == 1 else 2
    return {
        "default.replication.factor": brokers,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": brokers,
        "transaction.state.log.replication.factor": brokers,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": brokers,
        "share.coordinator.state.topic.min.isr": in_sync,
        # A killed broker may register again only when its last session is over: 9 s by default. A
        # single broker waits for that on top of its start, as its controller forgot when it began.
        "broker.session.timeout.ms": 2000 if brokers == 1 else 4000,
        "broker.heartbeat.interval.ms": 250 if brokers == 1 else 500,
    }


_LAPTOP: dict[str, object] = {
    "auto.create.topics.enable": "false",
    # One user, few groups: partitions that are not there need not be loaded at a start.
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.num.partitions": 4,
    # A group of one need not wait 3 s for others to join.
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    # A dead sender's transaction holds read_committed readers up only this much beyond its timeout.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    # By default a quarter of a small heap.
    "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
}
