"""Values, texts, dates and patterns that behave as in Java, as Spark expressions and in Python.

Begin with `values` (printing Connect values; Java's texts are in `plugins/java_text.py`), `literals` (reading them) and
`json_members` (splitting schemaless values).
"""
