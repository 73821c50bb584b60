"""The way of one batch. Begin at `source.py` or `sink.py`, read from top to bottom; what they call stands beside them.

`source_*` and `sink_*` are the parts of the steps, `job.py` runs them in Spark, `placement.py` says when.
"""
