"""Reads tables, their columns and keys, and the columns of queries from MariaDB's information_schema.

Decided: information_schema, not SQLAlchemy's inspector, because that needs a SHOW CREATE TABLE for each table and reads
its text; loses: three statements to maintain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import sqlalchemy
from sqlalchemy import Connection

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.tables import Table, TableId, TableType

_INTEGERS: Final = {
    "tinyint": (Kind.INT8, Kind.INT16),
    "smallint": (Kind.INT16, Kind.INT32),
    "mediumint": (Kind.INT32, Kind.INT32),
    "int": (Kind.INT32, Kind.INT64),
    "integer": (Kind.INT32, Kind.INT64),
    "bigint": (Kind.INT64, Kind.INT64),
}
"""Signed and unsigned."""

_OTHERS: Final = {
    "float": Kind.FLOAT32,
    "double": Kind.FLOAT64,
    "date": Kind.DATE,
    "time": Kind.TIME,
    "datetime": Kind.TIMESTAMP,
    "timestamp": Kind.TIMESTAMP,
    "binary": Kind.BYTES,
    "varbinary": Kind.BYTES,
    "tinyblob": Kind.BYTES,
    "blob": Kind.BYTES,
    "mediumblob": Kind.BYTES,
    "longblob": Kind.BYTES,
    "varchar": Kind.STRING,
    "tinytext": Kind.STRING,
    "text": Kind.STRING,
    "mediumtext": Kind.STRING,
    "longtext": Kind.STRING,
}

_AS_TEXT: Final = "CAST({} AS CHAR)"
_SPATIAL: Final = ("geometry", "point", "linestring", "polygon", "multipoint", "geometrycollection", "geomcollection")


def describe(connection: Connection, tables: Sequence[TableId]) -> dict[TableId, Table]:
    """Describes the tables that exist."""
    here, folds = connection.execute(sqlalchemy.text("SELECT DATABASE(), @@lower_case_table_names <> 0")).one()
    folded = str.lower if folds else str
    named = {table: (table.catalog or here or "", table.table) for table in tables}
    catalogs, names = ({place[part] for place in named.values()} for part in (0, 1))
    given = {"catalogs": sorted(catalogs), "tables": sorted(names)}
    rows: dict[tuple[str, str], list[Any]] = {}
    for row in connection.execute(_expanding(_DESCRIBE), given):
        rows.setdefault((folded(row.catalog), folded(row.name)), []).append(row)
    keys: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    for row in connection.execute(_expanding(_KEYS), given):
        of_table = keys.setdefault((folded(row.catalog), folded(row.name)), {})
        of_table[row.key_name] = (*of_table.get(row.key_name, ()), row.column_name)
    places = {table: (folded(catalog), folded(name)) for table, (catalog, name) in named.items()}
    return {
        table: _described(table, rows[place], keys.get(place, {})) for table, place in places.items() if place in rows
    }


def columns_of(connection: Connection, query: str) -> tuple[DatabaseColumn, ...]:
    """The columns of a SELECT's result."""
    probe = f"SELECT * FROM (\n{query}\n) AS q LIMIT 0"
    result = connection.execution_options(no_parameters=True).exec_driver_sql(probe)
    cursor: Any = result.cursor
    fields = cursor._result.fields
    result.close()
    return tuple(_of_result(field) for field in fields)


def column_of(name: str, kind: str) -> DatabaseColumn:
    """The column of this name and type, as a CREATE TABLE has it."""
    data_type, _, sizes = kind.lower().partition("(")
    first, *rest = (int(number) for number in sizes.rstrip(")").split(",")) if sizes else (None,)
    column = _column(name, data_type, kind.lower(), "unsigned" in sizes, first)
    if column.kind is Kind.DECIMAL:
        return replace(column, precision=first, scale=rest[0] if rest else 0)
    return replace(column, precision=first or 0) if column.kind in (Kind.TIME, Kind.TIMESTAMP) else column


def _expanding(query: str) -> sqlalchemy.TextClause:
    return sqlalchemy.text(query).bindparams(
        sqlalchemy.bindparam("catalogs", expanding=True), sqlalchemy.bindparam("tables", expanding=True)
    )


_DESCRIBE: Final = """
SELECT c.TABLE_SCHEMA AS catalog, c.TABLE_NAME AS name, t.TABLE_TYPE AS table_type, c.COLUMN_NAME AS column_name,
       LOWER(c.DATA_TYPE) AS data_type, c.COLUMN_TYPE AS column_type, c.IS_NULLABLE = 'YES' AS nullable,
       c.NUMERIC_PRECISION AS numeric_precision, c.NUMERIC_SCALE AS numeric_scale,
       c.DATETIME_PRECISION AS fraction, c.CHARACTER_MAXIMUM_LENGTH AS length,
       c.COLUMN_DEFAULT IS NOT NULL AND c.COLUMN_DEFAULT <> 'NULL' AS has_default, c.EXTRA AS extra
FROM information_schema.COLUMNS c
JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
WHERE c.TABLE_SCHEMA IN :catalogs AND c.TABLE_NAME IN :tables
ORDER BY c.TABLE_SCHEMA, c.TABLE_NAME, c.ORDINAL_POSITION
"""

_KEYS: Final = """
SELECT TABLE_SCHEMA AS catalog, TABLE_NAME AS name, INDEX_NAME AS key_name, COLUMN_NAME AS column_name
FROM information_schema.STATISTICS
WHERE NON_UNIQUE = 0 AND TABLE_SCHEMA IN :catalogs AND TABLE_NAME IN :tables
ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX
"""


def _described(table: TableId, rows: Sequence[Any], keys: Mapping[str, tuple[str, ...]]) -> Table:
    kind = TableType.VIEW if rows[0].table_type == "VIEW" else TableType.TABLE
    columns = tuple(_of_table(row) for row in rows)
    unique = tuple(names for key, names in keys.items() if key != "PRIMARY")
    return Table(table, kind, columns, keys.get("PRIMARY", ()), unique)


def _of_table(row: Any) -> DatabaseColumn:
    extra = row.extra.lower()
    column = _column(row.column_name, row.data_type, row.column_type, "unsigned" in row.column_type.lower(), row.length)
    if column.kind is Kind.DECIMAL:
        column = replace(column, precision=row.numeric_precision, scale=row.numeric_scale)
    if column.kind in (Kind.TIME, Kind.TIMESTAMP):
        column = replace(column, precision=row.fraction or 0)
    return replace(
        column,
        nullable=bool(row.nullable),
        autoincrement="auto_increment" in extra,
        has_default=bool(row.has_default) or "auto_increment" in extra,
        generated="generated" in extra and "default_generated" not in extra,
    )


def _column(name: str, data_type: str, column_type: str, unsigned: bool, length: int | None) -> DatabaseColumn:
    """The column by its type's name; other types are read as text."""
    if data_type in _INTEGERS:
        return DatabaseColumn(name, column_type, _INTEGERS[data_type][unsigned], unsigned=unsigned)
    if data_type in ("decimal", "numeric"):
        return DatabaseColumn(name, column_type, Kind.DECIMAL)
    if data_type == "bit":
        return _bits(name, column_type, int(length or column_type.partition("(")[2].partition(")")[0] or 1))
    if data_type == "year":
        # As a date, which Confluent's driver makes of it; the database makes a year of a date again.
        short = column_type == "year(2)" or length == 2  # 70 to 99 are of the last century, 00 to 69 of this one
        digits, year = ("2", "%y") if short else ("4", "%Y")
        first = f"STR_TO_DATE(CONCAT(LPAD({{}}, {digits}, '0'), '-01-01'), '{year}-%m-%d')"
        return DatabaseColumn(name, column_type, Kind.DATE, select=first)
    if data_type.startswith(("multiline", "multipoly")) or data_type in _SPATIAL:
        return DatabaseColumn(name, column_type, Kind.BYTES)
    if data_type == "char":
        # The JVM's driver names the types CHAR and UUID: Spark pads the one with blanks, and refuses the other.
        return DatabaseColumn(name, column_type, Kind.STRING, length=length, select=_AS_TEXT)
    if data_type in _OTHERS:
        kind = _OTHERS[data_type]
        size = length if kind in (Kind.STRING, Kind.BYTES) else None
        return DatabaseColumn(name, column_type, kind, length=size, zoned=data_type == "timestamp")
    return DatabaseColumn(name, column_type, Kind.STRING, select=_AS_TEXT)


def _bits(name: str, type_name: str, count: int) -> DatabaseColumn:
    """bit(n): a single bit is 0 or 1; more are bytes, the highest first."""
    if count == 1:
        return DatabaseColumn(name, type_name, Kind.INT8, select="({} + 0)")
    return DatabaseColumn(name, type_name, Kind.BYTES, length=(count + 7) // 8, select="CAST({} AS BINARY)")


_NOT_NULL: Final = 1
_UNSIGNED: Final = 32
_BINARY_CHARSET: Final = 63
_RESULT_TYPES: Final = {
    0: "decimal",
    1: "tinyint",
    2: "smallint",
    3: "int",
    4: "float",
    5: "double",
    7: "timestamp",
    8: "bigint",
    9: "mediumint",
    10: "date",
    11: "time",
    12: "datetime",
    13: "year",
    16: "bit",
    246: "decimal",
    254: "char",
    255: "geometry",
}
"""254 also stands for enums, UUIDs and addresses; all character types may be binary, too."""


def _of_result(field: Any) -> DatabaseColumn:
    """The column of a result's field, from PyMySQL's descriptor with the protocol's type code."""
    unsigned = bool(field.flags & _UNSIGNED)
    data_type = _RESULT_TYPES.get(field.type_code, "text")
    if data_type in ("char", "text") and field.charsetnr == _BINARY_CHARSET:
        data_type = "blob"
    name = f"{data_type} unsigned" if unsigned and data_type in _INTEGERS else data_type
    column = replace(_column(field.name, data_type, name, unsigned, field.length), nullable=not field.flags & _NOT_NULL)
    if column.kind is Kind.STRING:
        # It counts bytes, and the bytes of a character depend on the connection.
        return replace(column, length=None)
    if column.kind is Kind.DECIMAL:
        # The length counts the sign and the point.
        digits = field.length - (0 if unsigned else 1) - (1 if field.scale else 0)
        return replace(column, precision=digits, scale=field.scale, type_name=f"decimal({digits},{field.scale})")
    if column.kind in (Kind.TIME, Kind.TIMESTAMP):
        return replace(column, precision=field.scale if 0 <= field.scale <= 6 else 6)
    return column
