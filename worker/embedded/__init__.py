"""A real Kafka broker and a schema registry on loopback, for development and tests. Begin at `kafka_broker.py`."""
