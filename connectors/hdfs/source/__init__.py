"""The file sources: files of HDFS, S3 or the local disk into topics, each file once.

    listing (files there) -> progress (files read) -> inspection (contents) -> reader

| module | holds |
|---|---|
| `task.py` | the task: plans whose splits are files, or pieces of large Parquet files |
| `progress.py` | the state of all files, in a bounded number of offsets |
| `listing.py` | the files below a path that are complete and match |
| `inspection.py` | a file's topic, format, schema and pieces |
| `reader.py` | the rows of a piece, with the offset after each |
"""
