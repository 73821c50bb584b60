"""The settings of the Iceberg sink: names, defaults and types of Apache's and Tabular's, and what they contradict."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.settings import Type
from headrace.connectors.lake.iceberg.sink.columns import SinkColumns
from headrace.connectors.lake.iceberg.sink.connector import IcebergSinkConnector
from headrace.connectors.lake.iceberg.sink.routing import TableRoutes
from headrace.connectors.lake.iceberg.sink.settings import SETTINGS, sink_options, split_terms
from headrace.connectors.lake.iceberg.sink.validation import advice, sink_problems
from headrace.plugins.schema import Schema, SchemaType

DECLARED: dict[str, tuple[Type, Any]] = {
    "iceberg.tables": (Type.LIST, []),
    "iceberg.tables.dynamic-enabled": (Type.BOOLEAN, False),
    "iceberg.tables.route-field": (Type.STRING, None),
    "iceberg.tables.default-commit-branch": (Type.STRING, None),
    "iceberg.tables.default-id-columns": (Type.STRING, None),
    "iceberg.tables.default-partition-by": (Type.STRING, None),
    "iceberg.tables.auto-create-enabled": (Type.BOOLEAN, False),
    "iceberg.tables.evolve-schema-enabled": (Type.BOOLEAN, False),
    "iceberg.tables.schema-force-optional": (Type.BOOLEAN, False),
    "iceberg.tables.schema-case-insensitive": (Type.BOOLEAN, False),
    "iceberg.tables.upsert-mode-enabled": (Type.BOOLEAN, False),
    "iceberg.tables.cdc-field": (Type.STRING, None),
    "iceberg.control.topic": (Type.STRING, "control-iceberg"),
    "iceberg.control.group-id-prefix": (Type.STRING, "cg-control-"),
    "iceberg.control.group-id": (Type.STRING, None),
    "iceberg.control.commit.interval-ms": (Type.INT, 300_000),
    "iceberg.control.commit.timeout-ms": (Type.INT, 30_000),
    "iceberg.control.commit.threads": (Type.INT, None),
    "iceberg.control.commit.max-consecutive-failures": (Type.INT, 1),
    "iceberg.coordinator.transactional.prefix": (Type.STRING, ""),
    "iceberg.coordinator-executor-keep-alive-timeout-ms": (Type.LONG, 120_000),
    "iceberg.connect.group-id": (Type.STRING, None),
}
BASE = {"name": "n", "iceberg.tables": "db.events, db.more", "iceberg.catalog.type": "rest"}
DYNAMIC = {"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "a.b"}


def test_names_types_and_defaults() -> None:
    assert {one.name: (one.type, one.default) for one in SETTINGS} == DECLARED


def test_a_commit_needs_a_thread() -> None:
    assert not SETTINGS.problems({"iceberg.control.commit.threads": "1"})
    assert SETTINGS.problems({"iceberg.control.commit.threads": "0"})


def test_tables_have_settings_of_their_own_whatever_dots_they_have() -> None:
    options = sink_options(
        {
            **BASE,
            "iceberg.table.db.events.id-columns": "a, b.c",
            "iceberg.table.db.events.partition-by": "day(ts), bucket(id, 16), region",
            "iceberg.table.db.events.commit-branch": "audit",
            "iceberg.tables.default-id-columns": "id",
            "iceberg.tables.auto-create-props.format-version": "3",
            "iceberg.tables.write-props.write.parquet.compression-codec": "zstd",
        }
    )
    assert options.tables == ("db.events", "db.more")
    assert options.id_columns("db.events") == ("a", "b.c")
    assert options.id_columns("db.more") == ("id",)
    assert options.partition_by("db.events") == ("day(ts)", "bucket(id, 16)", "region")
    assert (options.branch("db.events"), options.branch("db.more")) == ("audit", "main")
    assert options.create_properties == {"format-version": "3"}
    assert options.write_properties == {"write.parquet.compression-codec": "zstd"}


def test_terms_are_split_outside_of_brackets() -> None:
    assert split_terms(" a ,truncate(b, 4),, c ") == ["a", "truncate(b, 4)", "c"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"iceberg.tables": ""}, "No table is named"),
        ({"iceberg.tables": "db..t"}, "'db..t' is no table's name"),
        ({**DYNAMIC}, "records name their tables"),
        ({**DYNAMIC, "iceberg.tables": "", "iceberg.tables.route-field": ""}, "=true needs it"),
        ({"iceberg.tables.route-field": "x"}, "without a regular expression gets no record"),
        ({"iceberg.table.events.id-columns": "id"}, "does not have the table events"),
        ({"iceberg.table.db.events.id-column": "id"}, "no such setting of a table"),
        ({"iceberg.table.db.events.route-regex": "x"}, "has an effect only with"),
        (
            {"iceberg.tables": "db.a", "iceberg.tables.route-field": "x", "iceberg.table.db.a.route-regex": "("},
            "no regular expression",
        ),
        (
            {
                "iceberg.tables.upsert-mode-enabled": "true",
                "iceberg.tables.auto-create-enabled": "true",
                "iceberg.tables.default-id-columns": "id",
                "iceberg.tables.auto-create-props.format-version": "1",
            },
            "format version 2 and later",
        ),
        (
            {"iceberg.tables.cdc-field": "op", "iceberg.tables.auto-create-enabled": "true"},
            "needs the columns of its key",
        ),
        (
            {**DYNAMIC, "iceberg.tables": "", "iceberg.table.DB.events.id-columns": "id"},
            "Write iceberg.table.db.events.id",
        ),
        ({"iceberg.tables.default-partition-by": "day(ts), bucket(id)"}, "'bucket(id)' is no term for partitions"),
        ({"iceberg.table.db.events.partition-by": "days(ts"}, "'days(ts' is no term for partitions"),
        ({"iceberg.tables.auto-create-props.format-version": "two"}, "no version of Iceberg's format"),
        ({"errors.retry.topic.name": "later"}, "comes after later ones"),
    ],
)
def test_contradictions_are_named(config: dict[str, str], said: str) -> None:
    problems = sink_problems({**BASE, **config})
    assert any(said in str(one) for one in problems), problems


def test_a_good_config_has_no_problems() -> None:
    assert sink_problems(BASE) == []
    assert sink_problems({**DYNAMIC, "iceberg.table.any.name.id-columns": "id"}) == []
    assert sink_problems({**BASE, "iceberg.tables.upsert-mode-enabled": "true"}) == []  # by identifier fields


def test_rows_lack_only_what_is_a_part_of_every_key() -> None:
    keys = {"iceberg.table.db.events.id-columns": "a, b.c", "iceberg.table.db.more.id-columns": "a, d"}
    made = SinkColumns(sink_options({**BASE, **keys, "iceberg.tables.upsert-mode-enabled": "true"}))
    said: list[str] = []
    noted: Any = SimpleNamespace(refuse=lambda holds, why: said.append(why))
    made._refuse_keyless(noted, None, Schema(SchemaType.STRUCT))  # type: ignore[arg-type]
    assert said == ["It has no field a, which id-columns name as a part of its table's key"]


def test_a_plain_key_is_that_of_one_column_outside_of_structs() -> None:
    for named, column in (("id", "id"), ("a, b", None), ("a.b", None), ("", None)):
        options = sink_options({**BASE, "iceberg.tables.default-id-columns": named})
        assert SinkColumns(options)._plain_key() == column


def test_a_start_reports_all_problems_at_once() -> None:
    connector = IcebergSinkConnector()
    context: Any = SimpleNamespace()
    with pytest.raises(ConfigError) as caught:
        connector.start({"iceberg.control.commit.interval-ms": "x", "iceberg.tables": ""}, context)
    told = {one.key for one in caught.value.problems}
    assert {"iceberg.control.commit.interval-ms", "iceberg.catalog.type"} <= told


def test_advice() -> None:
    both = {"iceberg.tables.upsert-mode-enabled": "true", "iceberg.tables.cdc-field": "op"}
    assert [one.key for one in advice({**BASE, **both})] == ["iceberg.tables.upsert-mode-enabled"]
    idle = {"iceberg.tables.schema-force-optional": "true"}
    assert [one.key for one in advice({**BASE, **idle})] == ["iceberg.tables.schema-force-optional"]


def test_routes() -> None:
    both = TableRoutes(sink_options(BASE))
    assert list(both(None)) == list(both("x")) == ["db.events", "db.more"]
    routed = TableRoutes(
        sink_options(
            {
                **BASE,
                "iceberg.tables.route-field": "r",
                "iceberg.table.db.events.route-regex": "(?i)e.*",
                "iceberg.table.db.more.route-regex": "[em]",
            }
        )
    )
    assert [list(routed(one)) for one in (None, "E1", "e", "m", "em", "x")] == [
        [],
        ["db.events"],
        ["db.events", "db.more"],
        ["db.more"],
        ["db.events"],
        [],
    ]
    dynamic = TableRoutes(sink_options(DYNAMIC))
    assert [list(dynamic(one)) for one in (None, "db.t")] == [[], ["db.t"]]
