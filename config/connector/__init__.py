"""A connector's configuration: its settings, validated as by Connect, and its Kafka clients."""
