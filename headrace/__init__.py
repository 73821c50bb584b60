"""Headrace: Kafka Connect in Python, with Apache Spark as its engine."""

__version__ = "0.1.0"

CONNECT_VERSION = "4.3.1"
"""The Apache Kafka Connect version whose outside behaviour is kept."""
