"""A worker's configuration: its settings, what its environment and MirrorMaker's file say, who may do what."""
