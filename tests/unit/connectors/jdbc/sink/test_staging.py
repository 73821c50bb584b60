"""Documents of many rows."""

from __future__ import annotations

import json
from types import SimpleNamespace
from unittest.mock import Mock

import pyarrow as pa
import pytest

from headrace.connectors.jdbc.contract.sink_options import SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import Operation, RowLayout
from headrace.connectors.jdbc.contract.sink_sql import DOCUMENT, Target
from headrace.connectors.jdbc.dialects.mariadb.dialect import MariadbDialect
from headrace.connectors.jdbc.sink.staging import RowTooLarge, _documents, load


def rows(*texts: str) -> pa.Array:
    return pa.array([json.dumps([text]) for text in texts], pa.string())


def test_all_rows_in_order_in_documents_that_are_not_too_long() -> None:
    given = [str(number) * (number % 7) for number in range(200)]
    for most in (40, 100, 1000, 100_000):
        documents = list(_documents(rows(*given).slice(0), most))
        assert [row[0] for document in documents for row in json.loads(document)] == given
        assert all(len(document) <= most for document in documents)


def test_a_slice_of_rows() -> None:
    (document,) = _documents(rows("a", "b", "c", "d").slice(1, 2), 1000)
    assert json.loads(document) == [["b"], ["c"]]
    assert list(_documents(rows(), 1000)) == []


def test_many_rows_are_several_documents() -> None:
    documents = list(_documents(pa.array(["[]"] * 45_000), 1 << 30))
    assert [len(json.loads(document)) for document in documents] == [20_000, 20_000, 5_000]


def test_a_row_that_is_long_is_a_document_of_its_own() -> None:
    documents = list(_documents(rows("a", "x" * 200, "b"), 100))
    assert [len(json.loads(document)) for document in documents] == [1, 1, 1]


def test_only_a_row_that_is_long_by_itself_is_measured_in_a_statement_of_mariadbs() -> None:
    packet = 100_000  # of which a third is a usual document, and less is left beside a statement's text
    connection = Mock(info={}, dialect=SimpleNamespace(name="mysql", paramstyle="format"))
    connection.exec_driver_sql.return_value.scalar_one.return_value = packet
    driver = connection.connection.driver_connection
    driver.show_warnings.return_value = ()
    driver.escape.side_effect = lambda text: text.replace('"', '\\"')
    sql = MariadbDialect().sink_sql(SinkOptions())
    target, layout = Target(steps=(f"INSERT {DOCUMENT}",)), RowLayout(Operation.WRITE, (), "row")

    def write(*texts: str) -> None:
        load(connection, sql, target, layout, pa.record_batch({"row": rows(*texts)}))

    write(*['"' * 20] * 2000)
    driver.escape.assert_not_called()
    write("a", "x" * (packet // 3), "é")
    driver.escape.assert_called_once()
    with pytest.raises(RowTooLarge, match="A row has"):
        write("x" * (packet // 3 * 2))
