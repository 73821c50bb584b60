"""The client of a schema registry, and what converters with schemas in one share.

Begin with `converter.py`, which asks `Schemas` (`schemas.py`). `confluent.py` has those by Confluent's protocol, with
the choice of schemas and subjects; `client.py` has a method for each look-up. `http.py` sends the requests of any
protocol, `framing.py` has the bytes that name a schema.
"""
