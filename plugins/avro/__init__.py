"""Avro as Confluent's AvroData maps it. Begin with `tree.py`: what an Avro schema is here.

`to_connect.py` and `from_connect.py` convert schemas, `writing.py` values to bytes, `shapes.py` values that were read.
"""
