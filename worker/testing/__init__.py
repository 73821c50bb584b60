"""Fixtures for authors of plugins: Spark, a broker and a worker, as pytest finds them by itself."""
