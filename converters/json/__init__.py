"""Apache's JsonConverter. Begin with `converter.py`; `reading.py` reads values, `plugins/json` writes them.

Documents of the usual spelling are read by `positions.py` and `parsing.py`, all others by `nodes.py`.
"""
