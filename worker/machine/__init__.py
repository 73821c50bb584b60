"""This machine: its Javas, child processes, threads and memory. Begin at `processes.py`."""
