"""A broker in this process: the same fold as on Kafka, with a clock that tests move."""
