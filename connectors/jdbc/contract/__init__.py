"""The contract of dialects and its vocabulary: columns, tables, URLs, and the SQL that sources and sinks need.

Begin with `dialect`; a package that brings another database imports from this room only.
"""
