"""Stores of files behind one contract: HDFS, S3 and the local disk.

Begin with `store`; `by_url` finds the store of a URL.
"""
