"""Documents of many rows."""

from __future__ import annotations

import json

import pyarrow as pa

from headrace.connectors.jdbc.staging import _documents


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
