"""librdkafka's clients: how they are made, read with, written with, and what they refuse."""
