"""Topics into partitioned files on HDFS, S3 and the local disk, and files of there into topics.

Floors, from the lowest: settings and errors; `stores/`; `partitioners/` and `formats/`; `sink/`, `source/` and `hive/`.
"""
