"""Settings, each declared once (type, default, check, secret); properties files, config providers, and the keys of
Kafka's Java clients in the words of librdkafka, kafka-python and Spark. Begin at `settings.py`, then `worker.py` and
`connector.py`.
"""
