"""Handles failed records (`errors.*`): logs, dead-letters or retries them. Begin at `reporting.py`."""
