"""Runs connectors and tasks on this worker: their instances, starts, ends and restarts. Begin at `work.py`."""
