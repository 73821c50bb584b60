"""MirrorSourceConnector: the records of one cluster's topics into another's; begin at `task.py` and `connector.py`."""
