"""Describes, in Spark's SQL, a value that the schema of its column cannot hold.

Of texts that are no numbers the length is shown, not the text, which may be anything. A dead letter has the text.
"""

from __future__ import annotations

from typing import Final

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.source_sql import TEMPORAL_KINDS, SourceSql
from headrace.connectors.jdbc.source.sql_text import sql_text
from headrace.plugins.schema import DECIMAL, MOST_DIGITS, Schema, scale

NO_NUMBER: Final = "-9223372036854775807"
"""Fetched numbers below it stand for no date or time."""
_SHOWN: Final = 50
"""The most characters of a value that are shown."""
_NUMBER: Final = "^[-+]?[0-9]+(\\.[0-9]*)?(e[-+]?[0-9]+)?$"
_NO_NUMBERS: Final = "('NaN', 'Infinity', '-Infinity', 'Inf', '-Inf')"
_BEYOND: Final = {
    Kind.DATE: "days since 1970, beyond the dates that there are",
    Kind.TIME: "microseconds since midnight, which is no time of day",
    Kind.TIMESTAMP: "microseconds since 1970, beyond the year 9999",
}


def why_unfit(column: DatabaseColumn, schema: Schema, sql: SourceSql, may_be_long: bool) -> str:
    """The end of the sentence "column x …" on a value that `schema` cannot hold; `{}` stands for the fetched value.

    `may_be_long`: true if a setting can make the column a text.
    """
    if column.kind in TEMPORAL_KINDS:
        beyond = f"concat('is ', {{}}, {sql_text(f' {_BEYOND[column.kind]}')})"
        return f"CASE WHEN {{}} < {NO_NUMBER} THEN {sql_text(f'is {sql.no_time}')} ELSE {beyond} END"
    if column.kind is Kind.ARRAY and column.element is not None and schema.value_schema is not None:
        element = sql_text(f"has an element that is no {short_name(schema.value_schema)}: ")
        shown = f"concat({element}, {shortened('{}')})"
        return f"CASE WHEN {{}} = '' THEN 'is an array of several dimensions' ELSE {shown} END"
    number = _no_decimal(scale(schema), may_be_long) if schema.name == DECIMAL else _no_other(schema)
    text = sql_text(f" characters, which is no {short_name(schema)}")
    double = sql_text(f", which no {short_name(schema)} is: a FLOAT64 holds it (numeric.mapping)")
    return (
        f"CASE WHEN CAST({{}} AS STRING) IN {_NO_NUMBERS} THEN concat('is ', {{}}, {double}) "
        f"WHEN NOT CAST({{}} AS STRING) RLIKE {sql_text(_NUMBER)} THEN concat('has a text of ', length({{}}), {text}) "
        f"ELSE {number} END"
    )


def short_name(schema: Schema) -> str:
    """The name of a schema's type in messages."""
    return (schema.name or schema.type.name).rpartition(".")[2]


def shortened(text: str) -> str:
    """The beginning of a text, as Spark's SQL."""
    return f"CASE WHEN length({text}) > {_SHOWN} THEN concat(left({text}, {_SHOWN}), '…') ELSE {text} END"


def _no_decimal(scale_: int, may_be_long: bool) -> str:
    """The end of the sentence for a number with too many digits; it may have an exponent."""
    fraction = "length(TRIM(TRAILING '0' FROM substring_index({}, '.', -1)))"
    whole = "length(TRIM(LEADING '-0' FROM substring_index({}, '.', 1)))"
    room = sql_text(f" digits before the point, for {MOST_DIGITS - scale_} of which its Decimal has room: ")
    fine = sql_text(f" digits after the point, for {scale_} of which its Decimal has room: ")
    tiny = sql_text(f", which needs more than the {MOST_DIGITS} digits of a Decimal, {scale_} of them after the point")
    advice = sql_text(" (numeric.long.mapping=string carries it)" if may_be_long else "")
    shown = f"{shortened('{}')}, {advice}"
    return (
        f"CASE WHEN contains({{}}, 'e') THEN concat('is ', {{}}, {tiny}, {advice}) "
        f"WHEN contains({{}}, '.') AND {fraction} > {scale_} THEN concat('has ', {fraction}, {fine}, {shown}) "
        f"ELSE concat('has ', {whole}, {room}, {shown}) END"
    )


def _no_other(schema: Schema) -> str:
    text = sql_text(f", which is no {short_name(schema)}")
    return f"concat('is ', {shortened('CAST({} AS STRING)')}, {text})"
