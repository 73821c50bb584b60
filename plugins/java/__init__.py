"""Values, texts, dates and patterns that behave as they do in Java, as Spark expressions and in Python.

Begin with `text` and `values` (how Connect prints a value), `literals` (how it reads one) and `json_members` (how it
takes schemaless values apart).
"""
