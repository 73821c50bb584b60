"""Confluent Replicator's configs over the mirror: its names, its offsets, provenance; begin at `translation.py`."""
