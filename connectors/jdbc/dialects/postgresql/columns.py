"""Reads tables, their columns and keys, and the columns of queries from PostgreSQL's catalog.

Decided: the catalog itself, not SQLAlchemy's inspector, because that has no name for types that it does not know, and
values are cast to that name; loses: three statements to maintain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, NamedTuple

import sqlalchemy
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from sqlalchemy import Connection

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.tables import Table, TableId, TableType

_TYPES: Final[Mapping[str, tuple[Kind, str]]] = {
    "bool": (Kind.BOOLEAN, "{}"),
    "int2": (Kind.INT16, "{}"),
    "int4": (Kind.INT32, "{}"),
    "int8": (Kind.INT64, "{}"),
    "oid": (Kind.INT64, "{}::bigint"),
    "float4": (Kind.FLOAT32, "{}"),
    "float8": (Kind.FLOAT64, "{}"),
    "money": (Kind.FLOAT64, "{}::numeric::double precision"),
    "numeric": (Kind.NUMERIC, "{}"),
    "text": (Kind.STRING, "{}"),
    "varchar": (Kind.STRING, "{}"),
    # A cast to text would lose the blanks at its end.
    "bpchar": (Kind.STRING, "{}"),
    "bytea": (Kind.BYTES, "{}"),
    "date": (Kind.DATE, "{}"),
    "time": (Kind.TIME, "{}"),
    "timetz": (Kind.TIME, "({} AT TIME ZONE 'UTC')::time"),
    "timestamp": (Kind.TIMESTAMP, "{}"),
    "timestamptz": (Kind.TIMESTAMP, "{}"),
}
"""By the name in pg_type; all other types are read as text."""

RELATIONS: Final = {
    "r": TableType.TABLE,
    "f": TableType.TABLE,
    "p": TableType.PARTITIONED_TABLE,
    "v": TableType.VIEW,
    "m": TableType.VIEW,
}
"""Confluent's driver has own names for foreign tables and materialized views; here they count as these."""


class _CatalogType(NamedTuple):
    oid: int
    name: str
    kind: str
    element: int
    domain_of: int
    domain_modifier: int


def describe(connection: Connection, tables: Sequence[TableId], names: Sequence[str]) -> dict[TableId, Table]:
    """Describes the tables that exist; `names` are their quoted names."""
    rows = list(connection.execute(sqlalchemy.text(_DESCRIBE), {"names": list(names)}))
    types = _types(connection, {row.type for row in rows})
    keys = _keys(connection, {row.relation for row in rows})
    found: dict[TableId, Table] = {}
    for number, group in groupby(rows, lambda row: row.number):
        table, own = tables[number - 1], list(group)
        columns = tuple(_described(row, types) for row in own if row.name is not None)
        primary, unique = keys.get(own[0].relation, ((), ()))
        found[table] = Table(table, RELATIONS[own[0].kind], columns, primary, unique, own[0].guarded)
    return found


def columns_of(connection: Connection, query: str) -> tuple[DatabaseColumn, ...]:
    """The columns of a SELECT's result. Errors: psycopg.Error for an invalid one."""
    driver: Any = connection.connection.dbapi_connection
    connection.execute(sqlalchemy.text("SELECT 1"))  # begins a transaction, so that both go to one server
    described = _prepared(driver, f"SELECT * FROM (\n{query}\n) AS q")
    encoding = driver.info.encoding
    facts = [
        (described.fname(number).decode(encoding), described.ftype(number), described.fmod(number))
        for number in range(described.nfields)
    ]
    types = _types(connection, {oid for _, oid, _ in facts})
    names = _type_names(connection, {(oid, modifier) for _, oid, modifier in facts})
    return tuple(_column(name, names[oid, modifier], types[oid], modifier, types) for name, oid, modifier in facts)


_DESCRIBE: Final = """
SELECT w.number, c.oid AS relation, c.relkind AS kind,
       c.relkind = 'v' OR row_security_active(c.oid) AS guarded, a.attname AS name, a.atttypid AS type,
       a.atttypmod AS modifier, format_type(a.atttypid, a.atttypmod) AS type_name, NOT a.attnotnull AS nullable,
       a.attidentity <> '' OR COALESCE(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%', FALSE) AS counts,
       d.adbin IS NOT NULL OR a.attidentity <> '' AS has_default, a.attgenerated <> '' AS generated,
       COALESCE(l.collisdeterministic, TRUE) AS deterministic
FROM unnest(CAST(:names AS text[])) WITH ORDINALITY AS w (name, number)
JOIN pg_catalog.pg_class c ON c.oid = to_regclass(w.name)
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
WHERE c.relkind IN ('r', 'f', 'p', 'v', 'm')
ORDER BY w.number, a.attnum
"""

_TYPE_ROWS: Final = """
SELECT oid, typname, typtype, CASE WHEN typcategory = 'A' THEN typelem ELSE 0 END, typbasetype, typtypmod
FROM pg_catalog.pg_type WHERE oid = ANY(CAST(:oids AS oid[]))
"""

_KEYS: Final = """
SELECT i.indrelid, i.indisprimary,
       ARRAY(SELECT a.attname::text FROM unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY k.place)
FROM pg_catalog.pg_index i
WHERE i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indisvalid AND i.indimmediate
  AND i.indrelid = ANY(CAST(:relations AS oid[]))
ORDER BY i.indrelid, i.indexrelid
"""

_TYPE_NAMES: Final = """
SELECT oid, modifier, format_type(oid, modifier)
FROM unnest(CAST(:oids AS oid[]), CAST(:modifiers AS int[])) AS t (oid, modifier)
"""


def _prepared(driver: Any, statement: str) -> Any:
    """libpq's description of a single statement. Errors: psycopg.Error."""
    encoding = driver.info.encoding
    for result in (driver.pgconn.prepare(b"", statement.encode(encoding)), driver.pgconn.describe_prepared(b"")):
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result, encoding)
    return result


def _type_names(connection: Connection, wanted: set[tuple[int, int]]) -> dict[tuple[int, int], str]:
    given = {"oids": [oid for oid, _ in sorted(wanted)], "modifiers": [modifier for _, modifier in sorted(wanted)]}
    return {(oid, modifier): name for oid, modifier, name in connection.execute(sqlalchemy.text(_TYPE_NAMES), given)}


def _types(connection: Connection, oids: Iterable[int]) -> dict[int, _CatalogType]:
    """The types of these oids, with their elements and the types that domains are of."""
    found: dict[int, _CatalogType] = {}
    wanted = set(oids) - {0, None}
    while wanted:
        rows = connection.execute(sqlalchemy.text(_TYPE_ROWS), {"oids": sorted(wanted)})
        new = {row[0]: _CatalogType(*row) for row in rows}
        found |= new
        wanted = {oid for one in new.values() for oid in (one.element, one.domain_of)} - found.keys() - {0}
    return found


def _keys(
    connection: Connection, relations: Iterable[int]
) -> dict[int, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]]:
    """The primary key and the other unique keys of each relation."""
    found: dict[int, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]] = {}
    for relation, primary, columns in connection.execute(sqlalchemy.text(_KEYS), {"relations": sorted(relations)}):
        key, unique = found.get(relation, ((), ()))
        found[relation] = (tuple(columns), unique) if primary else (key, (*unique, tuple(columns)))
    return found


def _described(row: Any, types: Mapping[int, _CatalogType]) -> DatabaseColumn:
    column = _column(row.name, row.type_name, types[row.type], row.modifier, types)
    return replace(
        column,
        nullable=row.nullable,
        autoincrement=row.counts,
        has_default=row.has_default and not row.generated,
        generated=row.generated,
        exact=column.exact and row.deterministic,
    )


def _column(
    name: str, type_name: str, kind: _CatalogType, modifier: int, types: Mapping[int, _CatalogType]
) -> DatabaseColumn:
    if kind.kind == "d":
        return replace(_column(name, type_name, types[kind.domain_of], kind.domain_modifier, types))
    if kind.element:
        element = _column("", type_name.removesuffix("[]"), types[kind.element], modifier, types)
        return DatabaseColumn(name, type_name, Kind.ARRAY, element=element)
    if kind.name == "bit":
        return _bits(name, type_name, max(modifier, 1))
    found, select = _TYPES.get(kind.name, (Kind.STRING, "{}::text"))
    zoned, exact = kind.name == "timestamptz", kind.name in ("text", "varchar")
    column = DatabaseColumn(name, type_name, found, select=select, zoned=zoned, exact=exact)
    if found is Kind.NUMERIC and modifier >= 4:
        # Eleven bits with a sign: numbers may be rounded before their point.
        scale = (((modifier - 4) & 0x7FF) ^ 1024) - 1024
        return replace(column, precision=((modifier - 4) >> 16) & 0xFFFF, scale=scale)
    if kind.name in ("varchar", "bpchar") and modifier >= 4:
        return replace(column, length=modifier - 4)
    if found in (Kind.TIME, Kind.TIMESTAMP):
        return replace(column, precision=modifier if 0 <= modifier <= 6 else 6)
    return column


def _bits(name: str, type_name: str, count: int) -> DatabaseColumn:
    """bit(n): one bit is a truth value, up to eight a number in two's complement, more are bytes, filled at the end."""
    if count == 1:
        return DatabaseColumn(name, type_name, Kind.BOOLEAN, select="{}::int::boolean")
    if count <= 8:
        signed = "({}::int - CASE WHEN {}::int > 127 THEN 256 ELSE 0 END)::smallint"
        return DatabaseColumn(name, type_name, Kind.INT8, select=signed)
    packed = "substring(bit_send({}) FROM 5)"
    return DatabaseColumn(name, type_name, Kind.BYTES, length=(count + 7) // 8, select=packed)
