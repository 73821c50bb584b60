"""Apache's JsonConverter. Begin with `converter.py`; `reading.py` reads values, `plugins/interop/json` writes them.

`positions.py` and `parsing.py` read documents of the usual spelling, `nodes.py` all others.
"""
