"""Failed records: their shape, their lines in the log and the headers of their dead letters.

Decided: there is no Java exception to show, so `exception.class.name` is the one that Apache's classes throw for data
(DataException), and `exception.stacktrace` one line; loses: the line number in Apache's code.

Decided: the log shows `timestampType=CreateTime` for every record, because Arrow rows do not carry the type; loses: the
word LogAppendTime.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa

from headrace.plugins.errors import RecordFailure

log = logging.getLogger(__name__)

DATA_EXCEPTION: Final = "org.apache.kafka.connect.errors.DataException"
CONNECT_EXCEPTION: Final = "org.apache.kafka.connect.errors.ConnectException"
RETRIABLE_EXCEPTION: Final = "org.apache.kafka.connect.errors.RetriableException"
PUT: Final = "TASK_PUT"
"""Stage of errors in a sink's writer."""
PREFIX: Final = "__connect.errors."
"""Prefix of the headers about the error."""
RETRY_PREFIX: Final = "__headrace.retry."
"""Prefix of the headers of a record in the retry topic: its origin, tries and due time."""

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
FAILED: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("headers", HEADERS),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("stage", pa.string()),
        ("class", pa.string()),
        ("exception", pa.string()),
        ("message", pa.string()),
        ("source_partition", pa.string()),
        ("source_offset", pa.string()),
    ]
)
"""Failed records as they came from Kafka; a source's have `source_partition`, `source_offset` instead."""


@dataclass
class FailureReport:
    """Report of a batch's failed records: lines for the log, and counts."""

    lines: list[str] = field(default_factory=list)
    logged: int = 0
    """Number of failed records to log, those beyond `lines` included."""
    sent: int = 0
    refused: int = 0

    def __bool__(self) -> bool:
        return bool(self.logged or self.sent or self.refused)

    def to_json(self) -> str | None:
        """Serialize for the way back from a Python worker; None if nothing failed."""
        return json.dumps(asdict(self)) if self else None

    @classmethod
    def of_json(cls, text: str) -> FailureReport:
        """Parse the text of `to_json`."""
        return cls(**json.loads(text))

    def tell(self) -> None:
        """Write the lines to this process's log."""
        for text in self.lines:
            log.error("%s", text)
        if (more := self.logged - len(self.lines)) > 0:
            log.error("%d more records failed in this batch; the first %d are shown above", more, len(self.lines))


def line(connector: str, task: int, row: Mapping[str, Any], in_full: bool) -> str:
    """Format the log line of a failed record in Apache's words; `in_full`: with the record's place."""
    where = ""
    if in_full and row["source_partition"] is not None:
        read = f"sourcePartition={_java_map(row['source_partition'])}, sourceOffset={_java_map(row['source_offset'])}"
        where = f", where source record is = SourceRecord{{{read}}} ConnectRecord{{topic='{row['topic']}'}}"
    elif in_full:
        stamp = "" if row["timestamp"] is None else f", timestamp={row['timestamp']}, timestampType=CreateTime"
        place = f"topic='{row['topic']}', partition={row['partition']}, offset={row['offset']}{stamp}"
        where = f", where consumed record is {{{place}}}"
    return (
        f"Error encountered in task {connector}-{task}. "
        f"Executing stage '{row['stage']}' with class '{row['class']}'{where}.\n{_thrown(row)}"
    )


def context(connector: str, task: int, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make the headers with a record's origin and error, as Apache names them; texts in UTF-8."""
    own = row["source_partition"] is not None
    place = {
        "topic": row["topic"],
        **({"source.partition": row["source_partition"], "source.offset": row["source_offset"]} if own else {}),
        **({} if own else {"partition": str(row["partition"]), "offset": str(row["offset"])}),
    }
    told = {
        **place,
        "connector.name": connector,
        "task.id": str(task),
        "stage": row["stage"],
        "class.name": row["class"],
        "exception.class.name": row["exception"],
        "exception.message": row["message"],
        "exception.stacktrace": f"{_thrown(row)}\n",
    }
    return [
        {"key": PREFIX + name, "value": None if text is None else text.encode("utf-8", "replace")}
        for name, text in told.items()
    ]


def failed_records(rows: pa.RecordBatch, raw: pa.RecordBatch | None) -> pa.RecordBatch:
    """Convert rows with an error in `_stop` to `FAILED`.

    `raw`: the same records as they came, row for row; None if `_stop` has their bytes, if they are wanted.
    """
    marks = [json.loads(mark) for mark in rows["_stop"].to_pylist()]
    came = None if raw is None else raw.select(["timestamp", "headers", "key", "value"]).to_pylist()
    places = zip(*(rows[name].to_pylist() for name in ("_topic", "_partition", "_offset")), strict=True)
    made = []
    for number, ((topic, partition, offset), mark) in enumerate(zip(places, marks, strict=True)):
        record = _unpacked(mark.get("raw", {})) if came is None else came[number]
        place = {"topic": topic, "partition": partition, "offset": offset}
        made.append({**record, **place, "exception": DATA_EXCEPTION, **mark["error"]})
    return pa.RecordBatch.from_pylist(made, schema=FAILED)


def refused_records(
    given: Sequence[tuple[pa.RecordBatch, pa.RecordBatch]], failures: Collection[RecordFailure], put_class: str
) -> pa.RecordBatch:
    """Convert records that a sink's writer refused to `FAILED`; `exception` tells which may succeed later.

    `given`: the writer's batches, each with the records as they came (`_row` counts in these).
    Errors: ValueError if a failure names a row that the writer was not given.
    """
    made, begin, named = [], 0, {failure.row: failure for failure in failures}
    count = sum(rows.num_rows for rows, _ in given)
    if wrong := [row for row in named if not 0 <= row < count]:
        raise ValueError(f"{put_class} says that row {wrong[0]} failed, but was given the rows 0 to {count - 1} only")
    for rows, raw in given:
        for failure in sorted(named.values(), key=lambda one: one.row):
            if begin <= failure.row < begin + rows.num_rows:
                row = rows["_row"][failure.row - begin].as_py()
                record = raw.slice(row, 1).select([*FAILED.names[:7]]).to_pylist()[0]
                kind = RETRIABLE_EXCEPTION if failure.retriable else CONNECT_EXCEPTION
                where = {"stage": failure.stage or PUT, "class": failure.class_name or put_class}
                made.append({**record, **where, "exception": kind, "message": failure.message})
        begin += rows.num_rows
    return pa.RecordBatch.from_pylist(made, schema=FAILED)


def _unpacked(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Unpack a record's own parts from the JSON of `partition_gate.stop_of`: nulls left out, bytes in base64."""
    headers = raw.get("headers")
    return {
        "timestamp": raw.get("timestamp"),
        "headers": None
        if headers is None
        else [{"key": one.get("key"), "value": _bytes(one.get("value"))} for one in headers],
        "key": _bytes(raw.get("key")),
        "value": _bytes(raw.get("value")),
    }


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _thrown(row: Mapping[str, Any]) -> str:
    """Format as Java prints an exception."""
    told = "" if row["message"] is None else f": {row['message']}"
    return f"{row['exception']}{told}"


def _java_map(text: str | None) -> str:
    """Format a JSON object as Java prints a map."""
    if text is None:
        return "null"
    return (
        "{" + ", ".join(f"{key}={'null' if value is None else value}" for key, value in json.loads(text).items()) + "}"
    )
