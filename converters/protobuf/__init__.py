"""Confluent's ProtobufConverter. Begin with `converter.py`; `compiling.py` compiles a registry's texts.

`plugins/interop/protobuf` reads and writes the bytes.
"""
