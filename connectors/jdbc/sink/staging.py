"""Loads rows of one layout into one table by its `Target`: by COPY, or in bound JSON documents.

No row is touched by Python: Arrow writes the CSV, and joins the rows that Spark wrote as JSON to documents.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from sqlalchemy import Connection

from headrace.connectors.jdbc.contract.sink_rows import RowLayout
from headrace.connectors.jdbc.contract.sink_sql import DOCUMENT, SinkSql, Target

CSV: Final = pa.csv.WriteOptions(include_header=False)
_COPY_ROWS: Final = 20_000
"""The most rows that become CSV at a time: bounds the memory."""
_DOCUMENT_ROWS: Final = 20_000
_COPIED: Final = re.compile(r"(?m)^COPY .*?, line \d+, column (.*?)(?:: |$)")


class RowTooLarge(Exception):
    """A single row is larger than a statement may be."""


class Altered(Exception):
    """Columns have other types than the statements were made for."""


def load(
    connection: Connection, sql: SinkSql, target: Target, layout: RowLayout, rows: pa.RecordBatch, again: bool = False
) -> None:
    """Loads the rows as the target says; `again`: this transaction has used its stage before.

    Errors: the driver's, wrapped by SQLAlchemy or not; RowTooLarge; Altered.
    """
    run = connection.execution_options(no_parameters=True).exec_driver_sql
    is_there = False
    if target.check is not None:
        fits, is_there = run(target.check).one()
        if not fits:  # the stage would round and cut their values
            raise Altered("The types of columns have changed")
    if target.stage is not None and not is_there:
        run(target.stage)
    if target.copy is not None:
        if again and target.clear is not None:
            run(target.clear)
        try:
            _copy(connection, target.copy, rows.select(list(target.arrow)))
        except Exception as error:
            if (column := _column_of(error, target)) is not None:
                error.add_note(f"column {column}")
            raise
    if layout.document is None:
        for step in target.steps:
            run(step)
        return
    usual, most = _ready_for_documents(connection, sql)
    for document in _documents(rows.column(layout.document), usual):
        if _is_longer(document, usual):  # of a single row, as it is
            _check_size(connection, sql, document, most)
        for step in target.steps:
            if DOCUMENT in step:
                connection.exec_driver_sql(*_with_document(connection, step, document))
            else:
                run(step)
            sql.check_values(connection)


def _copy(connection: Connection, statement: str, rows: pa.RecordBatch) -> None:
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for begin in range(0, rows.num_rows, _COPY_ROWS):
            sink = io.BytesIO()
            pa.csv.write_csv(rows.slice(begin, _COPY_ROWS), sink, CSV)
            copy.write(sink.getbuffer())


def _column_of(error: Exception, target: Target) -> str | None:
    """The table's column whose value COPY refused; None if the error names none."""
    context = getattr(getattr(error, "diag", None), "context", None) or ""
    found = _COPIED.search(context)
    return None if found is None else target.names.get(found[1], found[1])


def _with_document(connection: Connection, step: str, document: str) -> tuple[str, tuple[str, ...]]:
    if connection.dialect.paramstyle == "qmark":
        return step.replace(DOCUMENT, "?"), (document,) * step.count(DOCUMENT)
    return step.replace("%", "%%").replace(DOCUMENT, "%s"), (document,) * step.count(DOCUMENT)


def _documents(rows: pa.Array, most_bytes: int) -> Iterator[str]:
    """JSON arrays of consecutive rows, each no longer than `most_bytes` unless it has a single row."""
    lengths = pc.binary_length(rows)
    ends = pc.cumulative_sum(pc.add(lengths.cast(pa.int64()), 1)).to_numpy(zero_copy_only=False)
    begin = 0
    while begin < len(rows):
        before = 0 if begin == 0 else ends[begin - 1]
        end = min(begin + _DOCUMENT_ROWS, max(begin + 1, int(ends.searchsorted(before + most_bytes - 2, "right"))))
        part = rows.slice(begin, end - begin)
        whole = pa.ListArray.from_arrays(pa.array([0, len(part)], pa.int32()), part)
        yield f"[{pc.binary_join(whole, ',')[0].as_py()}]"
        begin = end


def _ready_for_documents(connection: Connection, sql: SinkSql) -> tuple[int, int]:
    """The limits of documents on this connection; prepares its session once."""
    known: tuple[int, int] | None = connection.info.get("headrace_documents")
    if known is None:
        sql.prepare_documents(connection)
        known = connection.info["headrace_documents"] = sql.document_limits(connection)
    return known


def _is_longer(text: str, most_bytes: int) -> bool:
    """True if a text is longer. Short ones are not encoded: a character has up to four bytes."""
    return len(text) > most_bytes // 4 and len(text.encode()) > most_bytes


def _check_size(connection: Connection, sql: SinkSql, document: str, most_bytes: int) -> None:
    size = sql.document_size(connection, document)
    if size > most_bytes:
        raise RowTooLarge(f"A row has {size} bytes in a statement, more than the {most_bytes} that the database takes")
