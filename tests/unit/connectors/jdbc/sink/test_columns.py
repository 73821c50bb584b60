"""The cells of a row, without Spark's expressions."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from headrace.connectors.jdbc.contract.sink_options import KeyMode, SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import Form, Value
from headrace.connectors.jdbc.sink import columns
from headrace.connectors.jdbc.sink.columns import SinkColumns
from headrace.connectors.jdbc.sink.record_sides import Fields
from headrace.plugins.schema import STRING


def test_the_columns_of_the_kafka_key_have_kafkas_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Confluent's sink: fields of their names, such as those of a table that such a sink has written, are left
    out, and no second value goes to a column."""
    monkeypatch.setattr(columns, "F", Mock())
    sink = SinkColumns(SinkOptions(key_mode=KeyMode.KAFKA), Form(False, Mock(), Mock()))
    value = Fields("v0", tuple(Value(name, STRING, Mock()) for name in ("__connect_topic", "name")))
    cells = sink._cells(None, value)
    assert not isinstance(cells, str)
    assert [(cell.name, cell.key) for cell, _ in cells] == [
        ("__connect_topic", True),
        ("__connect_partition", True),
        ("__connect_offset", True),
        ("name", False),
    ]
