"""The least rights of each role, as docs/security.md tells them."""

from __future__ import annotations

from tests.kafka.secured.cluster import Right


def application(prefix: str, space: str = "marq.") -> tuple[Right, ...]:
    """Sends to queues that begin with the prefix, and works on them."""
    return (
        Right("TOPIC", prefix, "READ", "WRITE"),
        Right("TOPIC", f"dlq.{prefix}", "READ"),
        Right("TOPIC", f"{space}catalog", "READ", exact=True),
        Right("TOPIC", f"{space}stats", "READ", exact=True),
        Right("TOPIC", f"{space}markers", "READ", "WRITE", exact=True),
        Right("TOPIC", f"{space}delayed", "WRITE", exact=True),
        Right("GROUP", f"{space}{prefix}", "READ"),
    )


def member(prefix: str, space: str = "marq.") -> tuple[Right, ...]:
    """What an application needs besides, to consume ordered groups of its queues."""
    return (
        Right("TOPIC", f"dlq.{prefix}", "WRITE"),
        Right("GROUP", f"{space}group.{prefix}", "READ"),
        Right("TRANSACTIONAL_ID", f"{space}group.{prefix}", "WRITE"),
    )


def producer(group: str, space: str = "marq.") -> tuple[Right, ...]:
    """What an application needs besides, to send half messages and answer for them."""
    return (
        Right("TOPIC", f"{space}checks.{group}", "READ", exact=True),
        Right("GROUP", f"{space.removesuffix('.')}/checks/{group}", "READ"),
    )


def tracker(space: str = "marq.") -> tuple[Right, ...]:
    """Keeps time for all queues."""
    return (
        Right("TOPIC", "*", "READ", "WRITE", "DELETE"),
        Right("GROUP", space, "READ", "DELETE"),
        Right("GROUP", "spark-kafka-source", "READ"),
        Right("TRANSACTIONAL_ID", f"{space}tracker.", "WRITE"),
    )


def operator(space: str = "marq.") -> tuple[Right, ...]:
    """Creates, changes and deletes queues and groups, and looks at all of it."""
    return (
        Right("TOPIC", "*", "READ", "WRITE", "CREATE", "DELETE", "DESCRIBE_CONFIGS"),
        Right("GROUP", space, "READ", "DELETE"),
        Right("TRANSACTIONAL_ID", f"{space}group.", "WRITE"),
    )
