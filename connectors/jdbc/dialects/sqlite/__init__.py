"""SQLite. Begin with `dialect`."""
