from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from headrace.connectors.java.batches import ROUTING, BatchSchemas, ToldShapes, batch_of
from headrace.plugins.schema import OPTIONAL_STRING, STRING, Field, Schema, SchemaType

INT = Schema(SchemaType.INT32)
ORDER = Schema(
    SchemaType.STRUCT,
    name="order",
    fields=(
        Field("tags", Schema(SchemaType.ARRAY, value_schema=OPTIONAL_STRING)),
        Field("counts", Schema(SchemaType.MAP, key_schema=STRING, value_schema=INT, optional=True)),
        Field("paid", Schema(SchemaType.BOOLEAN)),
    ),
)


def written(array: pa.Array) -> bytes:
    """An array as `connectors/java/host/RecordColumns.java` writes it, which never has an offset."""
    buffers = iter(array.buffers())
    return _node(array, buffers)


def _node(array: pa.Array, buffers: object) -> bytes:
    assert isinstance(buffers, type(iter([])))
    of_type, rows = array.type, len(array)
    validity = next(buffers)
    head = struct.pack("<qq", rows, array.null_count)
    head += _put(validity.to_pybytes()[: (rows + 7) // 8] if validity is not None and array.null_count else b"")
    if pa.types.is_struct(of_type):
        return head + b"".join(_node(array.field(i), buffers) for i in range(of_type.num_fields))
    if pa.types.is_list(of_type) or pa.types.is_map(of_type):
        head += _put(next(buffers).to_pybytes()[: 4 * rows + 4])
        inner = array.values if pa.types.is_list(of_type) else _entries(array)
        return head + _node(inner, buffers)
    if pa.types.is_string(of_type) or pa.types.is_binary(of_type):
        ends = next(buffers)
        data = next(buffers)
        return head + _put(ends.to_pybytes()[: 4 * rows + 4]) + _put(data.to_pybytes() if data is not None else b"")
    return head + _put(next(buffers).to_pybytes())


def _entries(array: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([array.keys, array.items], fields=[array.type.key_field, array.type.item_field])


def _put(data: bytes) -> bytes:
    return struct.pack("<q", len(data)) + data + b"\0" * (-len(data) % 8)


def test_rows_are_made_of_the_buffers_of_their_columns() -> None:
    shape = BatchSchemas({2: STRING}, {1: ORDER, 3: INT, 4: None}, has_failures=True)
    orders = [
        {"tags": ["a", None], "counts": [("x", 1), ("y", 2)], "paid": True},
        None,
        {"tags": [], "counts": None, "paid": False},
    ]
    columns = {
        "topic": ["t", "t", "u"],
        "partition": [None, 3, None],
        "timestamp": [1, None, 2],
        "headers": [[{"key": "h", "value": b"\x00"}], None, None],
        "key_schema": [0, None, 0],
        "value_schema": [0, 2, 0],
        "drop": [False, True, False],
        "message": [None, None, "it is bad"],
        "failed_stage": [None, None, "TRANSFORMATION"],
        "failed_class": [None, None, "org.x.Y"],
        "key_0": ["k", None, "l"],
        "value_0": orders,
        "value_1": [None, None, None],
        "value_2": [None, '{"a":1}', None],
    }
    fields = shape.row_type().fields
    assert [field.name for field in fields] == list(columns)
    numbers = {"key_schema": [2, None, 2], "value_schema": [1, 4, 1]}
    given = {name: numbers.get(name, rows) for name, rows in columns.items() if name != "value_1"}
    arrays = [
        pa.array(given[one.name], to_arrow_type(one.dataType, timezone="UTC")) for one in fields if one.name in given
    ]
    head = {"rows": 3, "first": 40, "key_columns": [2], "value_columns": [1, 4]}
    batch = batch_of(bytearray(b"".join(map(written, arrays))), head, shape)
    batch.validate(full=True)
    assert {name: batch[name].to_pylist() for name in columns} == columns
    assert batch["source_offset"].to_pylist() == [{"row": 40}, {"row": 41}, {"row": 42}]


def test_there_may_be_no_rows_of_a_schema() -> None:
    arrays = [pa.nulls(1, to_arrow_type(one.dataType, timezone="UTC")) for one in ROUTING]
    head = {"rows": 1, "first": 0, "key_columns": [], "value_columns": []}
    batch = batch_of(bytearray(b"".join(map(written, arrays))), head, BatchSchemas({}, {0: STRING}))
    assert [batch[name].to_pylist() for name in ("key_schema", "value_schema", "value_0")] == [[None], [None], [None]]


def told(*columns: int, new: int = 0, era: int = 0, failed: bool = False) -> dict[str, Any]:
    head = {"era": era, "keys": [], "values": [None] * new, "key_columns": [], "value_columns": list(columns)}
    return {**head, "has_failures": failed}


def test_tables_that_come_in_turn_have_a_shape_each() -> None:
    shapes = ToldShapes()
    first = [shapes.told(told(table, new=1)) for table in range(200)]
    assert len(set(first)) == 200
    assert [shapes.told(told(table)) for table in range(200)] == first
    assert {len(shapes[name].values) for name in first} == {1}


def test_a_mixture_of_many_tables_has_its_own_schemas_only() -> None:
    shapes = ToldShapes()
    shapes.told(told(0, new=80))
    assert list(shapes[shapes.told(told(1, 70))].values) == [1, 70]


def test_a_batch_with_failures_has_a_shape_that_others_do_not_use() -> None:
    shapes = ToldShapes()
    sound = shapes.told(told(0, new=1))
    failed = shapes.told(told(0, failed=True))
    assert [shapes[name].has_failures for name in (sound, failed)] == [False, True]
    assert [shapes.told(told(0, failed=one)) for one in (False, True)] == [sound, failed]
    assert shapes.told(told(0, 1, new=1, failed=True)) == shapes.told(told(0, 1)), "it has what others need, too"


def test_shapes_of_schemas_that_come_no_more_are_forgotten() -> None:
    shapes = ToldShapes()
    first = shapes.told(told(0, new=1))
    for era in range(1, 300):
        last = shapes.told(told(0, new=1, era=era))
    assert list(shapes[last].values) == [0]
    with pytest.raises(KeyError):
        shapes[first]
