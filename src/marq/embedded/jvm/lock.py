"""Maintenance: `python -m marq.embedded.jvm.lock` writes jars.lock again from what Ivy resolves.

Change a revision in ROOTS, run it, read the diff.
"""

from __future__ import annotations

import msgspec

from marq.embedded.jvm import ivy, jars, java

ROOTS: dict[jars.JarSet, tuple[ivy.Root, ...]] = {
    "kafka": (
        ivy.Root("org.apache.kafka", "kafka_2.13", "4.3.1", transitive=True),
        # Kafka logs through slf4j and its module names no backend: without one it logs nothing.
        ivy.Root("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ),
    "spark": (
        ivy.Root("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        ivy.Root("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ivy.Root("org.apache.kafka", "kafka-clients", "3.9.2"),
        ivy.Root("org.apache.commons", "commons-pool2", "2.13.1"),
    ),
}


def locked_now(roots: tuple[ivy.Root, ...]) -> jars.LockedSet:
    """What Ivy brings for these modules today."""
    cache = jars.cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with jars.scratch(cache) as fresh:
        ivy.retrieve(java.find(), roots, cache / "ivy", fresh, lambda: None)
        digests = {jar.name: jars.sha256(jar) for jar in sorted(fresh.iterdir()) if jar.is_file()}
    return jars.LockedSet(roots, digests)


def main() -> None:
    """Write the lock."""
    entries = {name: locked_now(roots) for name, roots in ROOTS.items()}
    jars.LOCK_FILE.write_bytes(msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n")


if __name__ == "__main__":
    main()
