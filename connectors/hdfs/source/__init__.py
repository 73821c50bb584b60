"""The file sources: files of HDFS, S3 or the local disk into topics, each file once.

    listing (which files there are) -> progress (which were read) -> inspection (what is in them) -> reader

| module | holds |
|---|---|
| `task.py` | the task: plans whose splits are files, or pieces of large Parquet files |
| `progress.py` | how far files were read, in a bounded number of offsets |
| `listing.py` | the files below a path that are complete and match |
| `inspection.py` | a file's topic, format, schema and pieces |
| `reader.py` | the rows of a piece, with the offset after each |
"""
