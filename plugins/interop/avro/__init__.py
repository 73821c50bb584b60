"""Avro as mapped by Confluent's AvroData. Begin with `tree.py`, which represents Avro schemas.

`to_connect.py` and `from_connect.py` convert schemas, `writing.py` turns values into bytes, and `shapes.py` shapes
values that were read.
"""
