"""The files of a table: rows conformed to its columns, partitioned, deduplicated by key, as Parquet."""
