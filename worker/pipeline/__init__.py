"""The path of one batch: begin at `source.py` or `sink.py` and read from top to bottom.

`source_*` and `sink_*` are parts of the steps, `job.py` runs them in Spark, `placement.py` chooses inline or job.
"""
