"""Confluent's AvroConverter. Begin with `converter.py`; `reading.py` reads values.

`plugins/avro` converts schemas in both directions and writes values; begin there with `tree.py`: an Avro schema.
"""
