"""The choice of tables that a source copies, by the old lists, the new ones and the patterns."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.connectors.jdbc.contract.tables import TableId, TableType
from headrace.connectors.jdbc.database.installed_dialects import dialect_for
from headrace.connectors.jdbc.source.settings import column_mapping, parse, table_filter
from headrace.connectors.jdbc.source.table_filter import TableFilter, same_topic

POSTGRESQL = dialect_for("postgresql")
TABLES = [
    (TableId(None, "public", "orders"), TableType.TABLE),
    (TableId(None, "public", "Orders_2"), TableType.TABLE),
    (TableId(None, "audit", "orders"), TableType.TABLE),
    (TableId(None, "audit", "split"), TableType.PARTITIONED_TABLE),
    (TableId(None, "public", "seen"), TableType.VIEW),
]


def chosen(**fields: Any) -> list[str]:
    return [str(table) for table in TableFilter(**fields).choose(TABLES, POSTGRESQL)]


ALL = ["public.orders", "public.Orders_2", "audit.orders", "audit.split"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ALL),
        ({"types": frozenset({"view"})}, ["public.seen"]),
        ({"listed": ("orders",)}, ["public.orders", "audit.orders"]),
        ({"listed": ("public.orders", '"audit"."orders"')}, ["public.orders", "audit.orders"]),
        ({"listed": ("ORDERS",)}, []),
        ({"unlisted": ("orders", "public.Orders_2")}, ["audit.split"]),
        ({"listed": ("orders",), "unlisted": ("orders",)}, ["public.orders", "audit.orders"]),
        ({"included": (r"public\..*",)}, ["public.orders", "public.Orders_2"]),
        ({"included": ("orders",)}, []),
        ({"included": (".*",), "excluded": (r".*\.orders",)}, ["public.Orders_2", "audit.split"]),
        ({"schema": "aud%"}, ["audit.orders", "audit.split"]),
        ({"schema": "_udit"}, ["audit.orders", "audit.split"]),
        ({"schema": "aud\\%"}, []),
        ({"schema": "a\\udit"}, ["audit.orders", "audit.split"]),
        ({"schema": "AUDIT"}, []),
        ({"schema": ""}, []),
        ({"catalog": "anything, since there is none here"}, ALL),
        ({"catalog": ""}, ALL),
    ],
)
def test_filters(fields: dict[str, Any], expected: list[str]) -> None:
    assert chosen(**fields) == expected


def test_tables_that_would_share_a_topic() -> None:
    shared = same_topic([table for table, _ in TABLES])
    assert [[str(table) for table in group] for group in shared] == [["public.orders", "audit.orders"]]


def test_the_filter_of_settings() -> None:
    values = parse({"mode": "bulk", "table.include.list": "a.*,b", "table.types": "view", "schema.pattern": ""})
    found = table_filter(values)
    assert found == TableFilter(None, "", frozenset({"VIEW"}), (), (), ("a.*", "b"), ())


def test_mappings_of_columns() -> None:
    pattern, columns = column_mapping(r"public\.(a|b):[changed|made]")
    assert pattern.match("public.a")
    assert columns == ("changed", "made")
    assert column_mapping("x:y:id")[1] == ("id",)
    for wrong in ("id", ":id", "a:", "a:[]", "(:id"):
        with pytest.raises(ValueError, match=r"\S"):
            column_mapping(wrong)
