"""Tables of a lake: `iceberg` (sink and source) and `delta` (sink)."""
