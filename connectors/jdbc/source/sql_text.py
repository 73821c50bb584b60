"""Constants in Spark's SQL."""

from __future__ import annotations


def sql_text(text: str) -> str:
    """A constant in Spark's SQL, where `${name}` would stand for a setting."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{escaped}'"
