"""`errors.*`: records that fail are logged, dead-lettered or tried again. Begin at `reporting.py`."""
