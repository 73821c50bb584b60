"""IcebergSource: tables into topics, snapshot by snapshot.

`task` plans, `scans` asks the table, `positions` are the offsets, `reader` yields the rows of local copies of files, in
the form of `columns`.
"""
