"""marq: a complete message queue on Apache Kafka."""
