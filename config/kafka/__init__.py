"""Settings of Kafka's Java clients, and their counterparts in librdkafka, kafka-python and Spark."""
