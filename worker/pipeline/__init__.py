"""The way of one batch: `source.py` and `sink.py` are read from top to bottom; what they call stands beside them."""
