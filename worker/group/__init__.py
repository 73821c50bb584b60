"""Connect's group protocol: how workers join, and who runs what. Begin at `membership.py`; `assignor.py` decides what
moves where.
"""
