"""Confluent's AvroConverter. Begin with `converter.py`; `reading.py` reads values.

`plugins/avro` converts schemas in both directions and writes values. Begin there with `plugins/avro/tree.py`.
"""
