"""A connector's configuration: its settings as Connect validates them, and the Kafka clients that it gets."""
