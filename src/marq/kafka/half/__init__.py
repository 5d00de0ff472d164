"""Half messages on Kafka: their owners, those who are asked about them, and a look at them."""
