"""The commands `headrace ...`. Begin at `commands.py`."""
