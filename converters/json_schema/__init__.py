"""JSON in Kafka, with its JSON Schemas in a schema registry: Confluent's JsonSchemaConverter.

Begin with `converter.py`; `to_connect.py` and `from_connect.py` convert schemas, `writing.py` writes values.
`converters/json` reads them.
"""
