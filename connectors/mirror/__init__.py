"""Replication between Kafka clusters, as MirrorMaker 2: topics, offsets of consumer groups, heartbeats."""
