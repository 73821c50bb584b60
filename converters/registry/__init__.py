"""The client of a schema registry, and what converters with schemas in one share.

Begin with `client.py`, which has a method for each look-up; `http.py` sends the requests. `converter.py` has the choice
of schemas and subjects, `framing.py` the bytes that name a schema.
"""
