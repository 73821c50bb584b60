"""What worker/ and connectors/mirror/ both need of Kafka's clients."""
