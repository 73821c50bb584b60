"""Connect's group protocol: workers join, and the leader assigns work.

Begin at `membership.py`; `assignor.py` decides what moves where.
"""
