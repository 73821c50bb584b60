"""What this worker runs: instances of connectors and tasks, their starts, ends and restarts. Begin at `work.py`."""
