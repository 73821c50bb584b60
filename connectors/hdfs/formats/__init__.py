"""The contents of files: Parquet, Avro, JSON, text and bytes, written from Arrow arrays and read. Begin with
`format.py`.

`compatibility.py` decides a file's schema when records change theirs, `projection.py` brings values to it.
"""
