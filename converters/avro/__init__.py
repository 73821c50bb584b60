"""Confluent's AvroConverter. Begin with `converter.py`, then `tree.py`: what an Avro schema is here.

`to_connect.py` and `from_connect.py` convert schemas, `reading.py` and `writing.py` values.
"""
