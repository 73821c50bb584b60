"""The sinks to HDFS, local disks and S3: topics into partitioned files of whole rotations, named by their offsets.

columns (expressions) -> files: cut into rotations, a file a directory -> staged in the store -> commit by rename
"""
