"""Apache's JsonConverter. Begin with `converter.py`; `reading.py` and `writing.py` are the two directions of a value.

Documents of the usual spelling are read by `positions.py` and `parsing.py`, all others by `nodes.py`.
"""
