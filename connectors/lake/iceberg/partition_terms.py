"""The terms of `partition-by`: a column, or a transform of one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.lake.iceberg.schema_json import field_at

_CALL: Final = re.compile(r"\s*(\w+)\s*\(\s*(.+?)\s*(?:,\s*(\d+)\s*)?\)\s*")
_TIMES: Final = {
    unit: unit.rstrip("s") for unit in ("year", "years", "month", "months", "day", "days", "hour", "hours")
}
_SIZED: Final = {"bucket": "bucket", "truncate": "trunc"}
"""The transforms with a number, and the ends of their partitions' names."""
_ADVICE: Final = (
    "Use a column's name, or year(c), month(c), day(c), hour(c), bucket(c, N) or truncate(c, W) with a column c of the "
    "table and a number from 1 on."
)


class Term(NamedTuple):
    """A parsed term."""

    column: str
    transform: str
    """Iceberg's text."""
    name: str
    """The name of the partition field."""


def term_of(text: str) -> Term:
    """Parse a term. Errors: ValueError."""
    call = _CALL.fullmatch(text)
    if call is None:
        column = text.strip()
        if not column or re.search(r"[(),]", column):
            raise ValueError(f"'{text}' is no term")
        return Term(column, "identity", column)
    function, column, number = call[1].lower(), call[2], call[3]
    if function in _TIMES and number is None:
        unit = _TIMES[function]
        return Term(column, unit, f"{column}_{unit}")
    if function in _SIZED and number is not None and int(number) > 0:
        return Term(column, f"{function}[{int(number)}]", f"{column}_{_SIZED[function]}")
    raise ValueError(f"'{text}' is no term")


def spec_json(schema: Mapping[str, Any], terms: Sequence[str]) -> dict[str, Any]:
    """Return the partition spec of a new table by the JSON of its schema.

    Errors: ConfigError for a wrong term, or one of a column that the schema does not have.
    """
    fields = []
    for number, text in enumerate(terms, 1000):
        try:
            term = term_of(text)
            *_, column = field_at(schema, term.column.split("."))
        except ValueError:
            raise refused(text, "It is no term for partitions.") from None
        except KeyError:
            raise refused(text, f"The table has no column '{term.column}'.") from None
        own = {"source-id": column["id"], "field-id": number}
        fields.append({"name": term.name, "transform": term.transform, **own})
    return {"spec-id": 0, "fields": fields}


def refused(text: str | None, why: str) -> ConfigError:
    """Return the error of a term, None: of all of them."""
    return ConfigError(Problem("partition-by", text, why, _ADVICE))
