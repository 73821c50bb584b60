"""Previews of sinks in a real worker: they equal what is then written, and change nothing."""

from __future__ import annotations

import io
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.integration.databases import Database
from tests.integration.hdfs_server import HdfsServer
from tests.integration.previewing import Previewing, Surroundings
from tests.integration.s3_server import S3Server
from tests.integration.sink_places import S3, Hdfs, Local, Place
from tests.integration.stranger_plugins import CHOOSY, TELLING
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

STRING = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
T = "org.apache.kafka.connect.transforms."
ALL = {"from": "earliest", "records": "100"}
WITHIN_S = 180

KEY = {"type": "struct", "optional": False, "fields": [{"field": "id", "type": "int32"}]}
ORDER = {
    "type": "struct",
    "optional": False,
    "name": "Order",
    "fields": [
        {"field": "id", "type": "int32"},
        {"field": "country", "type": "string"},
        {"field": "amount", "type": "double", "optional": True},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
    ],
}
HOUR_MS = 3_600_000
NUMBERS = range(6)


def enveloped(schema: Mapping[str, Any], payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}).encode()


def order(number: int) -> dict[str, Any]:
    country = ("DE", "FR é")[number % 2]
    amount = None if number == 3 else number + 0.5
    return {"id": number, "country": country, "amount": amount, "at": 1767323045678 + number // 2 * HOUR_MS}


class Topics:
    """Topics with some records each."""

    def __init__(self, broker: str) -> None:
        keys = [enveloped(KEY, {"id": number}) for number in NUMBERS]
        self.orders, self.changes, self.plain, self.lines = (
            Topic(broker, f"preview-{about}") for about in ("orders", "changes", "plain", "lines")
        )
        self.orders.send([enveloped(ORDER, order(number)) for number in NUMBERS], keys=keys)
        changed = [0, 1, 2, 1]
        self.changes.send(
            [enveloped(ORDER, order(number) | {"amount": turn}) for turn, number in enumerate(changed)],
            keys=[keys[number] for number in changed],
        )
        self.changes.send([enveloped(ORDER, order(9)), None], keys=[keys[0], keys[2]])  # type: ignore[list-item]
        self.plain.send([json.dumps({"id": number, "country": "DE"}).encode() for number in NUMBERS])
        self.lines.send([b"ok one", b"ok two", b"ok \xc3\xa9", b""])


class Case(ABC):
    """A sink, and what is in its outside system."""

    def __init__(self, topic: Topic, *settings: Mapping[str, str]) -> None:
        """A later one of the settings overrides an earlier one; `_` in their names stands for a dot."""
        self.name = f"preview-sink-{uuid.uuid4().hex[:8]}"
        self.config = {"name": self.name, "topics": topic.name}
        for some in settings:
            self.config |= {key.replace("_", "."): value for key, value in some.items()}

    @abstractmethod
    def told(self, answer: Mapping[str, Any]) -> Any:
        """The state of the outside system as the preview tells it."""

    @abstractmethod
    def there(self) -> Any:
        """The state of the outside system."""


def effects(answer: Mapping[str, Any]) -> list[Any]:
    """The effects of all records, which have no errors."""
    assert [one["error"] for one in answer["records"] if one["error"] is not None] == []
    return [effect for record in answer["records"] for effect in record["effects"]]


class Lines(Case):
    """A sink that appends to a file."""

    def __init__(self, topic: Topic, folder: Path, name: str = "FileStreamSink", **settings: str) -> None:
        super().__init__(topic, {"connector.class": name, "value.converter": STRING}, settings)
        self.file = folder / f"{self.name}.txt"
        self.config["file"] = str(self.file)

    def told(self, answer: Mapping[str, Any]) -> list[str]:
        assert all(one["target"] == str(self.file) for one in effects(answer))
        return [one["detail"]["line"] for one in effects(answer)]

    def there(self) -> list[str]:
        return self.file.read_text(encoding="utf-8").split("\n")[:-1] if self.file.exists() else []


class Files(Case):
    """A sink of partitioned files."""

    def __init__(self, topic: Topic, place: Place, form: str, **settings: str) -> None:
        given = {"connector.class": place.connector, "format.class": form, "flush.size": "1"}
        super().__init__(topic, given, place.settings, settings)
        self.place, self.topic = place, topic

    def told(self, answer: Mapping[str, Any]) -> dict[str, list[Any]]:
        ended = [one["target"] for one in answer["effects"] if one["detail"]["ended by"] is not None]
        values: dict[str, list[Any]] = {target: [] for target in ended}
        for one in effects(answer):
            if one["target"] in values:
                values[one["target"]].append(one["detail"]["value"])
        return {target.partition("/topics/")[2]: found for target, found in values.items()}

    def there(self) -> dict[str, list[Any]]:
        own = [path for path in self.place.paths() if not path.startswith("+tmp/")]
        return {path: self._values(path) for path in own}

    def _values(self, path: str) -> list[Any]:
        data = self.place.read(path)
        if path.endswith(".parquet"):
            return [_plain(one) for one in pq.read_table(io.BytesIO(data)).to_pylist()]
        if path.endswith(".avro"):
            return [_plain(one) for one in fastavro.reader(io.BytesIO(data))]
        return data.decode().split("\n")[:-1]


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Values as a preview shows them: what JSON lacks is text."""
    return {name: one if isinstance(one, str | int | float | None) else str(one) for name, one in value.items()}


class Rows(Case):
    """A sink into a table."""

    def __init__(self, topic: Topic, database: Database, **settings: str) -> None:
        super().__init__(topic, {"connector.class": "JdbcSink", "auto.create": "true"}, database.settings, settings)
        self.database, self.table = database, self.name.replace("-", "_")
        self.config["table.name.format"] = self.table
        self.config["offsets.table"] = f"offsets_{self.table}"

    def told(self, answer: Mapping[str, Any]) -> list[list[str]]:
        (made,) = [one for one in answer["effects"] if one["target"].endswith(self.table) and
                   one["target"] != self.config["offsets.table"]]  # fmt: skip
        assert made["action"] == "create table"
        rows: dict[Any, list[str]] = {}
        for number, one in enumerate(effects(answer)):
            if one["action"] == "none":
                continue
            values = one["detail"]["parameters"]
            is_found = one["action"] in ("upsert", "update", "delete")
            key = str(values["id"]) if is_found else number
            if one["action"] == "delete":
                rows.pop(key, None)
            else:
                rows[key] = [_text(values[name]) for name in ("id", "country", "amount")]
        return sorted(rows.values())

    def there(self) -> list[list[str]]:
        if self.table not in _tables(self.database):
            return []
        quote = "`" if self.database.kind in ("mariadb", "mysql") else '"'
        found = self.database.rows(f"SELECT id, country, amount FROM {quote}{self.table}{quote}")
        return sorted([_text(value) for value in row] for row in found)


def _text(value: Any) -> str:
    """A number as one text, however many digits a database or JSON gives it."""
    try:
        return f"{float(value):g}"
    except (TypeError, ValueError):
        return str(value)


def _tables(database: Database) -> list[str]:
    queries = {
        "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
        "sqlite": "SELECT name FROM sqlite_master",
    }
    return [name for (name,) in database.rows(queries.get(database.kind, "SHOW TABLES"))]


@pytest.fixture
def previewing(worker: WorkerProcess, broker: str, tmp_path: Path) -> Previewing:
    return Previewing(Surroundings(worker, broker, [tmp_path]))


@pytest.fixture
def topics(broker: str) -> Topics:
    return Topics(broker)


def check(previewing: Previewing, cases: Sequence[Case], databases: Sequence[Database] = ()) -> None:
    """Preview them all, look at what there is before and after, run them all, compare."""

    def look() -> Any:
        tables = [{name: database.rows(f"SELECT * FROM {name}") for name in _tables(database)}
                  for database in databases]  # fmt: skip
        return previewing.surroundings.look(), tables, [case.there() for case in cases]

    before = look()
    answers = [previewing.preview(case.config, **ALL) for case in cases]
    assert look() == before
    told = [case.told(answer) for case, answer in zip(cases, answers, strict=True)]
    worker = previewing.worker
    for case in cases:
        worker.request("PUT", f"/connectors/{case.name}/config", case.config)
    try:
        for case, wanted in zip(cases, told, strict=True):
            assert wanted, case.config
            status = f"/connectors/{case.name}/status"

            def same(case: Case = case, wanted: Any = wanted) -> bool:
                return bool(case.there() == wanted)

            eventually(same, WITHIN_S, lambda case=case, wanted=wanted, status=status: (
                f"told {wanted}, there is {case.there()}: {case.config}, {worker.get(status)}"
            ))  # fmt: skip
    finally:
        for case in cases:
            worker.request("DELETE", f"/connectors/{case.name}")


HOIST = {"transforms": "h", "transforms_h_type": f"{T}HoistField$Value", "transforms_h_field": "line"}
ROUTE = {"transforms": "r", "transforms_r_type": f"{T}RegexRouter", "transforms_r_regex": ".*"}
SQL = {"transforms": "s", "transforms_s_type": "headrace.transforms.Sql"}
PLAIN = {"value_converter": "JsonConverter", "value_converter_schemas_enable": "false"}
BY_TIME = {
    "partitioner_class": "TimeBasedPartitioner",
    "timestamp_extractor": "RecordField",
    "timestamp_field": "at",
    "locale": "en-US",
    "timezone": "UTC",
}
HOURLY = {**BY_TIME, "partition_duration_ms": str(HOUR_MS), "path_format": "'day'=yyyy-MM-dd/'hour'=HH"}
BY_FIELD = {"partitioner_class": "FieldPartitioner", "partition_field_name": "country"}


def of_lines(topics: Topics, folder: Path) -> list[Case]:
    where = "SELECT value FROM records WHERE value <> 'ok two'"
    return [
        Lines(topics.lines, folder),
        Lines(topics.lines, folder, **HOIST),
        Lines(topics.lines, folder, **SQL, transforms_s_sql=where),
        Lines(topics.orders, folder, value_converter="JsonConverter"),
        Lines(topics.plain, folder, **PLAIN),
        Lines(topics.lines, folder, TELLING),
    ]


def of_files(topics: Topics, folder: Path) -> list[Case]:
    def local(about: str) -> Local:
        return Local(folder / about)

    return [
        Files(topics.orders, local("parquet"), "parquet", flush_size="2"),
        Files(topics.orders, local("avro"), "avro", flush_size="2"),
        Files(topics.orders, local("json"), "json", flush_size="4"),
        Files(topics.orders, local("text"), "text"),
        Files(topics.lines, local("bytes"), "bytes", value_converter=BYTES, flush_size="2"),
        Files(topics.plain, local("plain"), "json", **PLAIN),
        Files(topics.orders, local("field"), "parquet", flush_size="3", **BY_FIELD),
        Files(topics.orders, local("hourly"), "avro", flush_size="3", **HOURLY),
        Files(topics.orders, local("daily"), "json", flush_size="3", **{**BY_TIME, "partitioner_class": "Daily"}),
        Files(topics.orders, local("rotated"), "json", flush_size="99", rotate_interval_ms=str(HOUR_MS), **HOURLY),
        Files(topics.lines, local("routed"), "text", value_converter=STRING, **ROUTE, transforms_r_replacement="x-$0"),
    ]


def of_tables(topics: Topics, database: Database) -> list[Case]:
    by_key = {"pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}
    return [
        Rows(topics.orders, database),
        Rows(topics.orders, database, insert_mode="upsert", pk_mode="record_value", pk_fields="id"),
        Rows(topics.changes, database, insert_mode="upsert", **by_key, fields_whitelist="id,country,amount"),
    ]


@pytest.mark.long
def test_sinks_write_what_their_previews_show(
    previewing: Previewing, topics: Topics, sqlite: Database, tmp_path: Path
) -> None:
    lines, files, tables = of_lines(topics, tmp_path), of_files(topics, tmp_path), of_tables(topics, sqlite)
    often = [lines[2], lines[-1], files[-5], files[-2], tables[-1]]
    check(previewing, often, [sqlite])


@pytest.mark.soak
def test_more_sinks_write_what_their_previews_show(
    previewing: Previewing, topics: Topics, sqlite: Database, tmp_path: Path
) -> None:
    cases = [*of_lines(topics, tmp_path), *of_files(topics, tmp_path), *of_tables(topics, sqlite)]
    assert len(cases) >= 20
    check(previewing, cases, [sqlite])


@pytest.mark.soak
def test_sinks_elsewhere_write_what_their_previews_show(
    previewing: Previewing,
    topics: Topics,
    postgresql: Database,
    mariadb: Database,
    hdfs_server: HdfsServer,
    s3_server: S3Server,
) -> None:
    cases = [
        *of_tables(topics, postgresql)[1:],
        of_tables(topics, mariadb)[-1],
        Files(topics.orders, Hdfs.by_web(hdfs_server), "parquet", flush_size="2"),
        Files(topics.orders, Hdfs.by_jvm(hdfs_server), "avro", flush_size="2"),
        Files(topics.orders, S3(s3_server), "parquet", flush_size="2"),
        Files(
            topics.plain, S3(s3_server), "json", flush_size="3", **{k.replace(".", "_"): v for k, v in PLAIN.items()}
        ),
    ]
    check(previewing, cases, [postgresql, mariadb])


def test_a_sink_that_does_not_say_is_named(previewing: Previewing, topics: Topics, tmp_path: Path) -> None:
    config = Lines(topics.lines, tmp_path, CHOOSY).config
    answer = previewing.unchanged(config, **ALL)
    assert [one["stages"][-1]["value"] for one in answer["records"]][:2] == ["ok one", "ok two"]
    assert not any(one["effects"] for one in answer["records"])
    assert any("does not say what it would write" in one for one in answer["notes"])


def test_a_missing_table_is_an_error_of_each_record(previewing: Previewing, topics: Topics, sqlite: Database) -> None:
    sqlite.execute("CREATE TABLE other (id integer)")
    case = Rows(topics.orders, sqlite, auto_create="false", errors_tolerance="all")
    answer = previewing.unchanged(case.config, **ALL)
    errors = [one["error"] for one in answer["records"]]
    assert {one["outcome"] for one in errors} == {"skipped"}
    assert all(
        "is missing and auto-creation is disabled; it would be: CREATE TABLE" in one["message"] for one in errors
    )
