"""Confluent's AvroConverter. Begin with `converter.py`; `reading.py` reads values.

`plugins/interop/avro` converts schemas in both directions and writes values. Begin there with
`plugins/interop/avro/tree.py`.
"""
