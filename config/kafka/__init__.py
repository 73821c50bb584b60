"""Settings of Kafka's Java clients, and what they are in the words of librdkafka, kafka-python and Spark."""
