"""Makes records of a table's rows, each a struct of the columns. A row that does not fit is marked as failed."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType

from headrace.connectors.jdbc.source.offsets import INCREMENTING
from headrace.connectors.jdbc.source.sql_text import sql_text
from headrace.connectors.jdbc.source.tables import TableLayout
from headrace.connectors.jdbc.source.types import SourceColumn
from headrace.connectors.jdbc.source.unfit_values import NO_NUMBER, shortened
from headrace.plugins.records import AS_READ, ERROR, HEADERS, Records

STAGE: Final = "TASK_POLL"
TASK_CLASS: Final = "io.confluent.connect.jdbc.source.JdbcSourceTask"


def records_of(frame: DataFrame, layout: TableLayout) -> Records:
    """The records of a reader's rows."""
    members = [f"{sql_text(column.name)}, {column.value(f'c{number}')}" for number, column in enumerate(layout.columns)]
    fails, failure, as_read = _failure(layout)
    made = frame.selectExpr(
        f"{sql_text(layout.topic)} AS topic",
        "CAST(NULL AS INT) AS partition",
        "CAST(NULL AS BIGINT) AS timestamp",
        f"CAST(NULL AS {HEADERS.simpleString()}) AS headers",
        "CAST(NULL AS INT) AS key_schema",
        "0 AS value_schema",
        f"named_struct({', '.join(members)}) AS value_0",
        f"CAST(CASE WHEN {fails} THEN {failure} END AS {ERROR.simpleString()}) AS error",
        f"CAST(CASE WHEN {fails} THEN {as_read} END AS STRING) AS {AS_READ}",
        "false AS drop",
        "source_offset",
        "split",
    )
    return Records(made, keys=(), values=(layout.schema,))


def _failure(layout: TableLayout) -> tuple[str, str, str]:
    """Three expressions: the condition of a bad row, its error with all its faults, and the row as it was read."""
    reasons = _reasons(layout)
    if not reasons:
        return "false", "NULL", "NULL"
    found = ", ".join(f"CASE WHEN {condition} THEN {text} END" for condition, text in reasons)
    message = f"concat({_row(layout)}, concat_ws('; ', {found}))"
    error = f"named_struct('stage', {sql_text(STAGE)}, 'class', {sql_text(TASK_CLASS)}, 'message', {message})"
    return " OR ".join(f"({condition})" for condition, _ in reasons), error, _as_read(layout)


def _row(layout: TableLayout) -> str:
    """The beginning of a row's message, which names the row by its key."""
    known = {column.name: (number, column) for number, column in enumerate(layout.columns)}
    keys = [] if layout.hides else [known[name] for name in layout.key if name in known]
    shown = (
        f"concat({sql_text(f'{column.name}=')}, coalesce({shortened(_plain(number, column))}, 'null'))"
        for number, column in keys
    )
    row = f"'Row ', concat_ws(', ', {', '.join(shown)})" if keys else "'A row'"
    return f"{row}, {sql_text(f' of {layout.table}: ')}"


def _reasons(layout: TableLayout) -> list[tuple[str, str]]:
    """The conditions under which a row fails, with their messages."""
    found = []
    for number, column in enumerate(layout.columns):
        if column.may_fail:
            name = sql_text(f"column {column.name} ")
            hidden = sql_text(f"holds no {column.schema.name or column.schema.type.name}")
            why = hidden if layout.hides else column.unfit.replace("{}", f"c{number}")
            found.append((f"c{number} IS NOT NULL AND {column.value(f'c{number}')} IS NULL", f"concat({name}, {why})"))
    if layout.order.mode.counts:
        text = sql_text("the incrementing column is null")
        found.append((f"source_offset.{INCREMENTING} IS NULL", text))
    return found


def _as_read(layout: TableLayout) -> str:
    """The row as JSON. Values that the records' schema cannot hold are as they were fetched."""
    members = ", ".join(
        f"{sql_text(column.name)}, {_plain(number, column) if column.schema.name else f'c{number}'}"
        for number, column in enumerate(layout.columns)
    )
    return f"to_json(named_struct({members}), map('ignoreNullFields', 'false'))"


def _plain(number: int, column: SourceColumn) -> str:
    """The text of a value; of the fetched value, if the schema cannot hold it."""
    if isinstance(column.type, StringType):
        return f"c{number}"
    fetched = f"CASE WHEN c{number} > {NO_NUMBER} THEN CAST(c{number} AS STRING) END"
    return f"coalesce(CAST({column.value(f'c{number}')} AS STRING), {fetched})"
