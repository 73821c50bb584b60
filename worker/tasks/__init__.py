"""The loop around the pipeline: a task's thread, states, polls and commits.

Begin at `task.py`, then `source.py` and `sink.py`.
"""
