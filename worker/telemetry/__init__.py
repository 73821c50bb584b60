"""Sends a worker's metrics, and spans of its batches, to servers that are not Prometheus."""
