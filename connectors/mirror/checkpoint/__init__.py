"""MirrorCheckpointConnector: the offsets of consumer groups, translated for the target cluster."""
