"""This machine: Java, the cache of jars, child processes and memory. Begin at `jars.py`."""
