"""This machine: Java, the cache of jars and child processes. Begin at `jars.py`."""
