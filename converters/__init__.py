"""The shipped converters: bytes in Kafka to Connect's values and back.

`string.py`, `bytes.py`, `numbers.py` and `headers.py` have a converter each or, for numbers, several; `json/` and
`avro/` begin at their `converter.py`; `registry/` is the schema registry's client, which `avro/` uses.
"""
