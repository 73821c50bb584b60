"""Says what a writer would do: the documents, and the indices that are not there yet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa

from headrace.connectors.elasticsearch.options import SinkOptions
from headrace.connectors.elasticsearch.target import Link
from headrace.plugins.errors import RecordFailure, RecordsFailed
from headrace.plugins.extensions import Effect

NOTES = (
    "The server decides only when it gets a document if it fits the mapping.",
    "A document that is there with a higher version stays as it is.",
)


def effects(batches: Sequence[pa.RecordBatch], link: Link, options: SinkOptions) -> Iterator[Effect]:
    """Yields new indices and each row's action. Errors: RecordsFailed, last; as `Indices.is_there`."""
    rows = [row for batch in batches for row in batch.select(["lines", "refused", "index"]).to_pylist()]
    for name in dict.fromkeys(row["index"] for row in rows if row["lines"]):
        if not link.indices.is_there(name):
            yield Effect("create", name)
    failures = []
    for number, row in enumerate(rows):
        if row["lines"]:
            yield _effect(row["lines"], number)
        elif row["lines"] is None and not options.drops_invalid:
            failures.append(RecordFailure(number, row["refused"]))
    if failures:
        raise RecordsFailed(failures[0].message, failures)


def _effect(text: str, row: int) -> Effect:
    first, _, document = text.rstrip("\n").partition("\n")
    ((action, told),) = json.loads(first).items()
    detail = {name.lstrip("_"): value for name, value in told.items() if name != "_index"}
    if document:
        try:
            detail["document"] = json.loads(document)
        except ValueError:
            detail["document"] = document
    return Effect(action, told["_index"], detail, row)
