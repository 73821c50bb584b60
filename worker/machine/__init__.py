"""This machine: Java, the cache of jars, child processes and scratch folders. Begin at `jars.py`."""
