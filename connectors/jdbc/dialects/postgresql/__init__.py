"""PostgreSQL. Begin with `dialect`."""
