"""Upserts and deletes: the last of each key counts, and each key is deleted where it may be."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.files import upsert
from headrace.connectors.lake.iceberg.files.files import Files
from headrace.connectors.lake.iceberg.files.targets import Target
from headrace.connectors.lake.iceberg.parts import ALL_PARTITIONS
from headrace.connectors.lake.iceberg.schemas import Field, Struct, Type
from headrace.connectors.lake.iceberg.tables import PartitionField, PartitionSpec, TableState
from headrace.plugins.offsets import TopicPartition
from tests.unit.connectors.lake.files.made_rows import (
    STRUCT,
    ScriptedTargets,
    files_of,
    orders,
    read,
    rows,
    spec,
    state,
)

DELETES = "equality-deletes"


def files(tmp_path: Path, table: TableState, *keys: str, **changes: Any) -> Files:
    return Files(spec(**changes), ScriptedTargets(Target(table, keys=keys)), str(tmp_path))


def ops(*numbers: int) -> pa.Array:
    return pa.array(numbers, pa.int8())


def test_the_last_row_of_a_key_is_the_only_one(tmp_path: Path) -> None:
    held = files(tmp_path, state(), "id")
    held.add(rows(orders((1, "a"), (2, "a"), (1, "b"))))
    held.add(rows(orders((2, "b"), (3, "a")), first=3, op=ops(1, 1)))
    held.add(rows(orders((3, None), (4, None), (1, "c"), (4, "d"), (2, None)), first=5, op=ops(2, 2, 1, 1, 2)))
    part = held.finish()
    assert sorted(read(part), key=str) == [{"id": 1, "name": "c"}, {"id": 4, "name": "d"}]
    assert sorted(read(part, DELETES), key=str) == [{"id": number} for number in (1, 2, 3, 4)]
    (deleted,) = files_of(part, DELETES)
    assert (deleted.equality_ids, deleted.records, deleted.spec_id, deleted.partition) == ((1,), 4, 0, ())


def test_an_empty_table_gets_deletes_because_it_may_be_filled_meanwhile(tmp_path: Path) -> None:
    held = files(tmp_path, state(is_empty=True), "id")
    held.add(rows(orders((1, "a"), (2, "a"), (2, None)), op=ops(1, 1, 2)))
    part = held.finish()
    assert read(part) == [{"id": 1, "name": "a"}]
    assert len(read(part, DELETES)) == 2


BY_NAME = PartitionSpec(0, (PartitionField(2, 1000, "n", "truncate[1]"),))


def test_deletes_are_of_partitions_if_all_their_columns_are_keys(tmp_path: Path) -> None:
    held = files(tmp_path, state(spec=BY_NAME), "id", "name")
    held.add(rows(orders((1, "a1"), (2, "b1"), (2, "b1"), (3, None))))
    part = held.finish()
    assert {(one.partition, one.records) for one in files_of(part)} == {(("a",), 1), (("b",), 1), ((None,), 1)}
    found = {one.partition: (one.records, one.spec_id, one.equality_ids) for one in files_of(part, DELETES)}
    assert found == dict.fromkeys([("a",), ("b",), (None,)], (1, 0, (1, 2)))


@pytest.mark.parametrize(
    ("keys", "table", "spec_id"),
    [
        (("id",), state(spec=BY_NAME), ALL_PARTITIONS),
        (("id",), state(spec=BY_NAME, unpartitioned_spec=7, other_specs=True), 7),
        (("id", "name"), state(spec=BY_NAME, other_specs=True), ALL_PARTITIONS),
        (("id",), state(spec=PartitionSpec(5), unpartitioned_spec=5, other_specs=True), 5),
        (
            ("id",),
            state(spec=PartitionSpec(1, (PartitionField(9, 1, "old", "void"),)), other_specs=True),
            ALL_PARTITIONS,
        ),
    ],
)
def test_else_deletes_are_of_all_partitions(
    tmp_path: Path, keys: tuple[str, ...], table: TableState, spec_id: int
) -> None:
    held = files(tmp_path, table, *keys)
    held.add(rows(orders((1, "a"), (2, "b"))))
    (deleted,) = files_of(held.finish(), DELETES)
    assert (deleted.spec_id, deleted.partition, deleted.records) == (spec_id, (), 2)


ID = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@pytest.mark.parametrize(
    ("kind", "arrow", "values"),
    [
        ("int", pa.int32(), [1, 2]),
        ("string", pa.string(), ["a", ""]),
        ("decimal(10,2)", pa.decimal128(38, 2), [Decimal("1.00"), Decimal("-1.50")]),
        ("uuid", pa.string(), [str(ID), str(UUID(int=1))]),
        ("timestamptz", pa.timestamp("us", "UTC"), [dt.datetime(2020, 1, day, tzinfo=dt.UTC) for day in (1, 2)]),
        ("date", pa.date32(), [dt.date(2020, 1, day) for day in (1, 2)]),
        ("binary", pa.binary(), [b"a", b""]),
        ("fixed[2]", pa.binary(), [b"ab", b"ba"]),
        ("boolean", pa.bool_(), [True, False]),
    ],
)
def test_keys_of_all_types(tmp_path: Path, kind: Type, arrow: pa.DataType, values: list[Any]) -> None:
    table = state(Struct((Field(4, "key", kind), Field(5, "n", "int"))))
    held = files(tmp_path, table, "key")
    one, other = values
    found = [{"key": key, "n": number} for number, key in enumerate([one, other, None, one, None, other])]
    held.add(rows(found, pa.struct([("key", arrow), ("n", pa.int32())]), op=ops(1, 1, 1, 1, 1, 2)))
    part = held.finish()
    assert sorted(row["n"] for row in read(part)) == [3, 4]
    assert len({str(row["key"]) for row in read(part, DELETES)}) == 3 == files_of(part, DELETES)[0].records


def test_a_key_within_structs(tmp_path: Path) -> None:
    inner = Struct((Field(3, "id", "long"), Field(4, "other", "string")))
    table = state(Struct((Field(1, "name", "string"), Field(2, "at", inner))))
    held = files(tmp_path, table, "at.id")
    kind = pa.struct([("name", pa.string()), ("at", pa.struct([("id", pa.int64()), ("other", pa.string())]))])
    values = [
        {"name": "a", "at": {"id": 1, "other": "x"}},
        {"name": "b", "at": {"id": 1, "other": "y"}},
        {"name": "c", "at": None},
    ]
    held.add(rows(values, kind))
    part = held.finish()
    assert sorted(row["name"] for row in read(part)) == ["b", "c"]
    assert sorted(read(part, DELETES), key=str) == [{"at": {"id": 1}}, {"at": {"id": None}}]
    assert files_of(part, DELETES)[0].equality_ids == (3,)


def test_deletes_need_their_keys_only(tmp_path: Path) -> None:
    schema = Struct((Field(1, "id", "long", required=True), Field(2, "name", "string", required=True)))
    held = files(tmp_path, state(schema), "id", key_layouts=[STRUCT, None], tolerates=True)
    key = pa.array([None, {"id": 8}, None, None, None], pa.struct([("id", pa.int64())]))
    batch = rows(
        [{"id": 7, "name": None}, None, None, None, {"id": None, "name": "x"}],
        op=ops(2, 2, 2, 2, 2),
        key_layout=pa.array([None, 0, 1, None, None], pa.int32()),
        key_0=key,
        key_1=pa.array([None, None, '{"id":9}', None, None], pa.string()),
    )
    failed = held.add(batch)
    assert [(one.row, one.message) for one in failed] == [
        (3, "The record deletes a row, but has no key"),
        (4, "The column id is required, but the record has no value for it"),
    ]
    assert sorted(row["id"] for row in read(held.finish(), DELETES)) == [7, 8, 9]


def test_a_delete_by_a_key_without_the_keys_columns_is_refused(tmp_path: Path) -> None:
    table = state(Struct((Field(1, "a", "long"), Field(2, "b", "long"))))
    held = files(tmp_path, table, "a", "b", key_layouts=[None])
    keys = pa.array(['{"other":1}', '{"a":1}', '{"a":null,"b":null}'])
    numbers = pa.array([0, 0, 0], pa.int32())
    failed = held.add(rows([None] * 3, op=ops(2, 2, 2), key_layout=numbers, key_0=keys))
    assert [one.row for one in failed] == [0, 2]
    assert all("none of the key's columns" in one.message for one in failed)


def test_rows_that_the_table_has_already_leave_nothing_to_write(tmp_path: Path) -> None:
    held = Files(spec(), ScriptedTargets(Target(state(), {TopicPartition("orders", 0): 9}, ("id",))), str(tmp_path))
    held.add(rows(orders((1, "a"), (2, None)), op=ops(1, 2)))
    part = held.finish()
    assert (part.tables, part.done) == ((), {TopicPartition("orders", 0): (0, 1)})


def test_a_delete_in_a_table_without_keys_is_refused(tmp_path: Path) -> None:
    held = files(tmp_path, state())
    (failed,) = held.add(rows(orders((1, "a"), (1, None)), op=ops(0, 2)))
    assert failed.row == 1
    assert "has no key columns" in failed.message
    assert read(held.finish()) == [{"id": 1, "name": "a"}]


def test_what_cannot_be_a_key_is_refused(tmp_path: Path) -> None:
    schema = Struct((Field(1, "f", "double"), Field(2, "o", Struct((Field(3, "x", "int"),)))))
    for name, why in (("f", "is double"), ("o", "is nested"), ("gone", "has no column gone")):
        with pytest.raises(LakeError, match=why):
            files(tmp_path, state(schema), name).add(rows([{"f": 1.0}], pa.struct([("f", pa.float64())])))
    with pytest.raises(LakeError, match="format version 1"):
        files(tmp_path, state(format_version=1), "id").add(rows(orders((1, "a"))))


def test_rows_on_the_disk_are_as_those_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.connectors.lake.iceberg.files.files.MEMORY_BYTES", 5_000)
    held, folded, chance = (
        files(tmp_path, state(spec=BY_NAME), "id", interval_s=9.0),
        dict[int, str](),
        random.Random(45),
    )
    for number in range(40):
        changes = [(chance.randrange(300), chance.choice("abcdef")) for _ in range(50)]
        kinds = [1 + (chance.random() < 0.2) for _ in changes]
        for (key, name), kind in zip(changes, kinds, strict=True):
            folded[key] = name if kind == 1 else ""
        held.add(rows(orders(*changes), first=number * 50, op=ops(*kinds)))
    assert list(tmp_path.rglob("*.arrow"))
    part = held.finish(at_once=True)
    assert {row["id"]: row["name"] for row in read(part)} == {key: name for key, name in folded.items() if name}
    assert len(read(part)) == len({row["id"] for row in read(part)})
    assert sorted(row["id"] for row in read(part, DELETES)) == sorted(folded)
    assert not list(tmp_path.rglob("*.arrow"))


def test_a_wider_schema_in_mid_commit(tmp_path: Path) -> None:
    schema = Struct((Field(1, "id", "int"), Field(2, "name", "string")))
    targets = ScriptedTargets(Target(state(schema), keys=("id",)))
    held = Files(spec(), targets, str(tmp_path))
    held.add(rows(orders((1, "a"), (2, "a"))))
    wider = Struct((Field(1, "id", "long"), Field(2, "name", "string"), Field(3, "new", "long")))
    targets.now = Target(state(wider, schema_id=1), keys=("id",))
    held.forget()
    kind = pa.struct([("id", pa.int64()), ("name", pa.string()), ("new", pa.int64())])
    held.add(rows([{"id": 1, "name": "b", "new": 5}, {"id": 2**40, "name": "c", "new": 6}], kind, first=2))
    part = held.finish()
    assert sorted((row["id"], row["name"], row.get("new")) for row in read(part)) == [
        (1, "b", 5),
        (2, "a", None),
        (2**40, "c", 6),
    ]
    assert sorted(row["id"] for row in read(part, DELETES)) == [1, 2, 2**40]


def test_many_held_rows_make_a_commit_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = files(tmp_path, state(), "id", interval_s=3600.0)
    held.add(rows(orders((1, "a"), (2, "b"))))
    assert not held.finish().tables
    assert (held.due_s() or 0) > 3000
    monkeypatch.setattr(upsert, "_MOST_ROWS", 2)
    assert held.due_s() == 0
    assert len(held.finish().tables) == 1


def test_upserts_use_no_columns_of_their_own(tmp_path: Path) -> None:
    schema = Struct((Field(1, "order", "long"), Field(2, "key0", "string")))
    held = files(tmp_path, state(schema), "order", "key0")
    found = [{"order": 5, "key0": "a"}, {"order": 5, "key0": "a"}, {"order": 4, "key0": "a"}]
    held.add(rows(found, pa.struct([("order", pa.int64()), ("key0", pa.string())])))
    assert sorted(row["order"] for row in read(held.finish())) == [4, 5]
