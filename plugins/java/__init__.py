"""Values, texts, dates and patterns that behave as in Java, as Spark expressions and in Python.

Begin with `text` and `values` (printing Connect values), `literals` (reading them) and `json_members` (splitting
schemaless values).
"""
