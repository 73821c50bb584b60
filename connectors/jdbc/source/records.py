"""Makes records of a table's rows, each a struct of the columns; a row that does not fit is marked as failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame

from headrace.connectors.jdbc.source.offsets import INCREMENTING
from headrace.connectors.jdbc.source.tables import TableLayout
from headrace.connectors.jdbc.source.types import sql_text
from headrace.plugins.records import ERROR, HEADERS, Records

STAGE: Final = "TASK_POLL"
TASK_CLASS: Final = "io.confluent.connect.jdbc.source.JdbcSourceTask"


def records_of(frame: DataFrame, layout: TableLayout) -> Records:
    """The records of a reader's rows."""
    members = [f"{sql_text(column.name)}, {column.value(f'c{number}')}" for number, column in enumerate(layout.columns)]
    reasons = _reasons(layout)
    made = frame.selectExpr(
        f"{sql_text(layout.topic)} AS topic",
        "CAST(NULL AS INT) AS partition",
        "CAST(NULL AS BIGINT) AS timestamp",
        f"CAST(NULL AS {HEADERS.simpleString()}) AS headers",
        "CAST(NULL AS INT) AS key_schema",
        "0 AS value_schema",
        f"named_struct({', '.join(members)}) AS value_0",
        f"CAST({_error(reasons) if reasons else 'NULL'} AS {ERROR.simpleString()}) AS error",
        "false AS drop",
        "source_offset",
        "split",
    )
    return Records(made, keys=(), values=(layout.schema,))


def _error(reasons: Sequence[tuple[str, str]]) -> str:
    """The first of the reasons that holds; a good row evaluates each once."""
    which = " ".join(f"WHEN {condition} THEN {text}" for condition, text in reasons)
    error = f"named_struct('stage', {sql_text(STAGE)}, 'class', {sql_text(TASK_CLASS)}, 'message', CASE {which} END)"
    return f"CASE WHEN {' OR '.join(f'({condition})' for condition, _ in reasons)} THEN {error} END"


def _reasons(layout: TableLayout) -> list[tuple[str, str]]:
    """The conditions under which a row fails, with their messages."""
    found = []
    for number, column in enumerate(layout.columns):
        if column.may_fail:
            what = column.schema.name.rpartition(".")[2] if column.schema.name else column.schema.type.name
            text = sql_text(f"column {column.name} has a value that is no {what}")
            found.append((f"c{number} IS NOT NULL AND {column.value(f'c{number}')} IS NULL", text))
    if layout.order.mode.counts:
        text = sql_text(f"Null value for incrementing column of table {layout.table}")
        found.append((f"source_offset.{INCREMENTING} IS NULL", text))
    return found
