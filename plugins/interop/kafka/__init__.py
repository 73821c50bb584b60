"""Parts of Kafka's clients shared by worker/ and connectors/mirror/."""
