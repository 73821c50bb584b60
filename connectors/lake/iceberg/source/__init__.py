"""The source of Iceberg: the rows that snapshots append."""
