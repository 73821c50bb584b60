"""Delta: a sink."""
