"""Configs, offsets and statuses, stored in Connect's compacted topics or in a file.

Begin at `compacted_topic.py`, then `config_topic.py`.
"""
