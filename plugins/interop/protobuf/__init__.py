"""Protobuf's binary encoding in Spark: Java that reads and writes rows, and the columns that call it (`codec.py`)."""
