"""Sends records to an HTTP API: expressions make URLs and bodies, `requests.py` batches, `sending.py` sends."""
