"""A real Kafka broker, a schema registry and a standalone worker on loopback, for development and tests.

Begin at `kafka_broker.py`.
"""
