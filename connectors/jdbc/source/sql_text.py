"""Writes constants in Spark's SQL."""

from __future__ import annotations


def sql_text(text: str) -> str:
    """A text as a constant in Spark's SQL. `$` is escaped: Spark replaces `${name}` by a setting's value."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{escaped}'"
