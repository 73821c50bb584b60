"""CSV: rows with quotes, escapes and line ends in cells, read by Arrow's own reader.

Decided: a quote counts at the beginning of a cell only; one elsewhere outside of quotes makes the row a bad one,
because readers differ in what it means and some go on to the next quote, over line ends; loses: files with inches
(`5"`) need `csv.quote.char=0`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from headrace.connectors.spool.cells import Cells
from headrace.connectors.spool.errors import BadFile, Unreadable
from headrace.connectors.spool.text_records import Found, TextRecords, escaped, line_ends, lines
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.schema import Schema

_LINE_SIGNS: Final = (10, 13)
_BLANKS: Final = (32, 9)
_COUNTS: Final = re.compile(r"Expected (\d+) columns, got (\d+)")
_STRAY: Final = (
    "a cell has a quote within, but does not begin with one: double it and quote the cell, or set csv.quote.char to 0 "
    "if quotes mean nothing in these files"
)


@dataclass(frozen=True)
class CsvDialect:
    """The signs of a CSV file, as bytes."""

    separator: int
    quote: int | None
    escape: int | None
    ignores_leading_blanks: bool
    has_header: bool
    skipped_lines: int
    null_empty: bool
    """An empty cell without quotes is null."""
    null_quoted: bool
    """An empty cell in quotes is null."""


@dataclass(frozen=True)
class CsvRows:
    """Reads rows of cells; blank lines are none."""

    dialect: CsvDialect
    cells: Cells
    value: Schema | None
    key: Schema | None

    def begin(self, records: TextRecords) -> tuple[str, ...]:
        """Pass over the lines before the first row; return the columns' names.

        Errors: BadFile if the header lacks a field that has to have a value, or names a column twice.
        """
        self.pass_lines(records)
        if not self.dialect.has_header:
            assert self.value is not None
            return tuple(field.name for field in self.value.fields)
        names = self.first_row(records)
        if names is None:
            return ()
        if len(set(names)) < len(names):
            raise BadFile(f"its header names a column twice: {', '.join(names)}")
        for schema in filter(None, (self.value, self.key)):
            for field in schema.fields:
                if field.name not in names and not field.schema.optional and field.schema.default is None:
                    raise BadFile(f"its header lacks the column {field.name}, whose schema is not optional")
        return names

    def pass_lines(self, records: TextRecords) -> None:
        """Pass over the lines to skip. Errors: BadFile."""
        for _ in range(self.dialect.skipped_lines):
            records.run(lines, 1)

    def first_row(self, records: TextRecords) -> tuple[str, ...] | None:
        """Return the cells of the next row; None at the end. Errors: BadFile."""
        row = records.run(self.find, 1)
        if row is None:
            return None
        try:
            count = self._table(row.data, csv.ReadOptions(autogenerate_column_names=True), csv.ConvertOptions())
            names = [str(number) for number in range(count.num_columns)]
            return tuple(column[0].as_py() for column in self._read(row.data, names, 1, False, False))
        except Unreadable as error:
            raise BadFile(f"its first row cannot be read: {error}") from error

    def find(self, data: bytes, closed: bool) -> Found:
        """Find rows; line ends within quotes, or escaped, end none."""
        ends, quote, escape = line_ends(data, closed), self.dialect.quote, self.dialect.escape
        problem, octets = None, np.frombuffer(data, np.uint8)
        after_escape = escaped(data, escape) if escape is not None and escape in data else np.zeros(0, np.int64)
        if len(after_escape):
            is_last = (ends == len(data)) & closed  # a file's last row ends, even with an escape sign
            ends = ends[~np.isin(ends - 1, after_escape) | is_last]
        if quote is not None and quote in data:
            quotes = np.setdiff1d(np.flatnonzero(octets == quote), after_escape, assume_unique=True)
            stray = self._stray(octets, quotes)
            rows = ends
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
            if closed and len(rows) and (not len(ends) or ends[-1] != rows[-1]):
                problem = "a quote has no end"
            if stray is not None:
                ends, problem = ends[ends <= stray], _STRAY
        begins = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1]])
        return Found(ends[~np.isin(octets[begins], _LINE_SIGNS)], problem)  # blank lines are part of the next row

    def _stray(self, octets: Any, quotes: Any) -> int | None:
        """The position of the first quote that opens within a cell; None if there is none."""
        opens, closes = quotes[0::2], quotes[1::2]
        begins = self._begins(octets, opens)
        before = octets[np.maximum(begins - 1, 0)]
        at_begin = (begins == 0) | (before == self.dialect.separator) | np.isin(before, _LINE_SIGNS)
        follows = np.append(False, closes[: len(opens) - 1] == opens[1:] - 1) if len(opens) else at_begin
        wrong = opens[~(at_begin | follows)]
        return int(wrong[0]) if len(wrong) else None

    def _begins(self, octets: Any, opens: Any) -> Any:
        """The positions where the blanks before quotes begin."""
        begins = opens.copy()
        while self.dialect.ignores_leading_blanks and len(begins):
            is_blank = (begins > 0) & np.isin(octets[np.maximum(begins - 1, 0)], _BLANKS)
            is_blank &= octets[np.maximum(begins - 1, 0)] != self.dialect.separator
            if not is_blank.any():
                break
            begins = begins - is_blank
        return begins

    def parse(self, data: bytes, ends: Any, names: Sequence[str]) -> tuple[Any, Any]:
        """Return the values and keys of rows. Errors: Unreadable if one does not fit."""
        columns = dict(zip(names, self._cells(data, names, len(ends)), strict=True))
        return self._typed(self.value, columns, len(ends)), self._typed(self.key, columns, len(ends))

    def _typed(self, schema: Schema | None, columns: dict[str, Any], rows: int) -> Any:
        if schema is None:
            return pa.nulls(rows)
        parts = [
            self.cells.typed(columns.get(field.name, pa.nulls(rows, pa.string())), field.schema, field.name)
            for field in schema.fields
        ]
        return pa.StructArray.from_arrays(parts, fields=list(arrow_type_of_schema(schema)))

    def _cells(self, data: bytes, names: Sequence[str], rows: int) -> list[Any]:
        empty, quoted = self.dialect.null_empty, self.dialect.null_quoted
        if quoted and not empty:
            # Arrow tells only cells without quotes apart.
            of_all, of_unquoted = self._read(data, names, rows, True, True), self._read(data, names, rows, True, False)
            return [
                pc.if_else(pc.and_(pc.is_null(both), pc.is_valid(one)), None, pc.fill_null(one, ""))
                for both, one in zip(of_all, of_unquoted, strict=True)
            ]
        return self._read(data, names, rows, empty, quoted)

    def _read(self, data: bytes, names: Sequence[str], rows: int, empty: bool, quoted: bool) -> list[Any]:
        reading = csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=list(names))
        converting = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""] if empty else [],
            strings_can_be_null=empty,
            quoted_strings_can_be_null=quoted,
        )
        table = self._table(data, reading, converting)
        if table.num_rows != rows:
            raise Unreadable("its rows cannot be told apart: is there a quote without its end?")
        return [column.combine_chunks() for column in table.columns]

    def _table(self, data: bytes, reading: Any, converting: Any) -> pa.Table:
        dialect = self.dialect
        parsing = csv.ParseOptions(
            delimiter=chr(dialect.separator),
            quote_char=False if dialect.quote is None else chr(dialect.quote),
            double_quote=dialect.quote is not None,
            escape_char=False if dialect.escape is None else chr(dialect.escape),
            newlines_in_values=dialect.quote is not None or dialect.escape is not None,
        )
        try:
            return csv.read_csv(io.BytesIO(self._without_blanks(data)), reading, parsing, converting)
        except pa.ArrowInvalid as error:
            raise Unreadable(_plain(str(error))) from error

    def _without_blanks(self, data: bytes) -> bytes:
        """The rows without blanks before quotes."""
        quote = self.dialect.quote
        if quote is None or not self.dialect.ignores_leading_blanks:
            return data
        sign = bytes([quote])
        if b" " + sign not in data and b"\t" + sign not in data:
            return data
        octets = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(octets == quote)
        if self.dialect.escape is not None and self.dialect.escape in data:
            quotes = np.setdiff1d(quotes, escaped(data, self.dialect.escape), assume_unique=True)
        opens = quotes[0::2]
        change = np.zeros(len(octets) + 1, np.int64)
        np.add.at(change, self._begins(octets, opens), 1)
        np.add.at(change, opens, -1)
        kept: bytes = octets[np.cumsum(change[:-1]) == 0].tobytes()
        return kept


def _plain(error: str) -> str:
    """Arrow's error for people, without the row that it quotes."""
    if (found := _COUNTS.search(error)) is not None:
        return f"the row has {found[2]} cells, but there are {found[1]} columns"
    return "its text is not UTF-8: set csv.file.charset" if "UTF8" in error else error
