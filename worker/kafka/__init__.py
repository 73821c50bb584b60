"""Kafka clients: rows out, topics and consumer groups.

Begin at `writer.py` (Arrow rows to a topic) and `errors.py` (which errors are retriable).
"""
