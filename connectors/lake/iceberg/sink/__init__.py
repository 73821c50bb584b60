"""The sink of Iceberg: begin with `task`."""
