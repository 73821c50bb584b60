"""A worker's configuration: its settings, environment variables, MirrorMaker's file, and rights."""
