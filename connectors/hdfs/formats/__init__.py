"""What is in files: Parquet, Avro, JSON, text and bytes, written from Arrow arrays and read. Begin with `format.py`.

`compatibility.py` decides which schema a file goes on with, `projection.py` brings values to it.
"""
