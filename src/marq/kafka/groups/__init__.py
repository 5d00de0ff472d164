"""Ordered groups on Kafka: performs what `marq.groups` decides."""
