"""Converters applied to whole batches: Kafka's bytes to `Records` (`decode`, begin there) and back (`encode`)."""
