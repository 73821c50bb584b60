"""A cluster with many connectors for hours, while its workers are killed and restarted: `python -m tests.soak`."""
