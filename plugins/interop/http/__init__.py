"""HTTP to outside systems, shared by the registry's client and by connectors: `client.py`, OAuth in `tokens.py`."""
