"""Apicurio's converters: its framing and settings, by its registry's own API.

Begin with `schemas.py`, which chooses versions of artifacts; `client.py` has the requests.
"""
