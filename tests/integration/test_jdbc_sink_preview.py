"""A JDBC sink tells beforehand the statements that it then runs in real databases, and changes nothing before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from sqlalchemy import event

from headrace.connectors.jdbc.sink import staging
from headrace.connectors.jdbc.sink.preview import ROWS
from headrace.connectors.jdbc.sink.task import JdbcSinkTask
from headrace.plugins.contracts import RecordsFailed, TaskContext
from headrace.plugins.extensions import Effect
from headrace.plugins.stopping import StopToken
from headrace.worker.engine.programs import Engine
from tests.integration.databases import Database
from tests.integration.sinking import Record, Sinking, shared, struct, with_schema

__all__ = ["shared"]

pytestmark = pytest.mark.spark

_CHANGES = ("CREATE", "ALTER", "INSERT", "UPDATE", "DELETE", "DROP")
KEY = struct(("id", "int32"))
ORDER = struct(("id", "int32"), ("name", "string?"), ("amount", "double?"))
WIDER = struct(("id", "int32"), ("name", "string?"), ("amount", "double?"), ("note", "string?"))
TYPED = struct(
    ("id", "int64"),
    ("flag", "boolean?"),
    ("data", "bytes?"),
    ("at", {"type": "int64", "optional": True, "name": "org.apache.kafka.connect.data.Timestamp"}),
    ("day", {"type": "int32", "optional": True, "name": "org.apache.kafka.connect.data.Date"}),
    ("clock", {"type": "int32", "optional": True, "name": "org.apache.kafka.connect.data.Time"}),
)
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), amount DOUBLE PRECISION)"


def keyed(number: int, value: bytes | None) -> Record:
    return Record(value, with_schema(KEY, {"id": number}))


def order(number: int, name: str | None = "n") -> Record:
    return keyed(number, with_schema(ORDER, {"id": number, "name": name, "amount": 1.5}))


def wider(number: int) -> Record:
    return keyed(number, with_schema(WIDER, {"id": number, "name": "w", "amount": None, "note": "x"}))


def typed(number: int) -> Record:
    values = {"id": number, "flag": True, "data": "AAE=", "at": 1767323045678, "day": 20000, "clock": 3723004}
    return keyed(number, with_schema(TYPED, values))


class Case(NamedTuple):
    """A sink, and the records for it."""

    settings: dict[str, str]
    records: tuple[Record, ...]
    table: str = ""
    """Made before."""
    schemas: bool = True


BY_KEY = {"pk.mode": "record_key", "pk.fields": "id", "delete.enabled": "true"}
PLAIN = {"insert.mode": "insert"}
UPSERT = {**BY_KEY, "insert.mode": "upsert"}
UPDATE = {**BY_KEY, "insert.mode": "update"}
MAKES = {"auto.create": "true", "auto.evolve": "true"}
CASES = {
    "insert": Case(PLAIN, (order(1), order(2, None)), TABLE),
    "insert into a new table": Case({**PLAIN, **MAKES}, (order(1), wider(2), order(3))),
    "insert of all types": Case({**PLAIN, **MAKES}, (typed(1), typed(2))),
    "upsert": Case(UPSERT, (order(1), order(2), order(1, "again")), TABLE),
    "upsert into a new table": Case({**UPSERT, **MAKES}, (order(1), wider(1), keyed(1, None), typed(2))),
    "upsert that widens": Case({**UPSERT, **MAKES}, (order(1), wider(2)), TABLE),
    "update": Case(UPDATE, (order(1), order(2)), TABLE),
    "deletes": Case(UPSERT, (order(1), keyed(2, None), order(3), keyed(3, None)), TABLE),
    "kafka's key": Case({"pk.mode": "kafka", "insert.mode": "upsert", **MAKES}, (order(1), order(2))),
    "at least once": Case({**UPSERT, **MAKES, "offsets.table": ""}, (order(1), typed(2))),
    "a zone": Case({**UPSERT, **MAKES, "db.timezone": "Europe/Berlin"}, (typed(1),)),
    "without schema": Case(
        {"pk.mode": "record_value", "pk.fields": "id", "insert.mode": "upsert"},
        (Record(b'{"id": 1, "name": "a"}'), Record(b'{"id": 2, "amount": 0.5}'), Record(b'{"id": 1, "name": null}')),
        TABLE,
        schemas=False,
    ),
}


class Told(NamedTuple):
    effects: list[Effect]
    notes: list[str]
    refused: dict[int, str]

    @property
    def statements(self) -> list[str]:
        found = [effect.detail.get("sql", []) for effect in self.effects]
        each = [one for sql in found for one in ([sql] if isinstance(sql, str) else sql)]
        return list(dict.fromkeys(each))


@pytest.fixture
def preview(shared: Engine, database: Database) -> Iterator[Callable[..., Told]]:
    """Previews these records by a sink with these settings, as the worker does."""
    made: list[Sinking] = []

    def preview(case: Case) -> Told:
        sink = Previewing(shared, database, case.settings, schemas=case.schemas)
        made.append(sink)
        batches = sink.pipeline.decoding.run(sink.rows(*case.records))
        assert all(rows["_stop"].null_count == len(rows) for rows in batches)
        effects, refused = list[Effect](), {}
        try:
            effects.extend(sink.task.preview(batches))
        except RecordsFailed as error:
            refused = {one.row: one.message for one in error.failures}
        return Told(effects, list(sink.task.preview_notes()), refused)

    yield preview
    for one in made:
        one.stop()


class Previewing(Sinking):
    """A sink's task in a preview."""

    def _started(self) -> JdbcSinkTask:
        task = JdbcSinkTask()
        task.start_preview(self.config, TaskContext("sink", 0, StopToken()))
        return task

    def open(self, *_: Any) -> None:
        """A preview opens nothing."""


def everything(database: Database) -> dict[str, Any]:
    """All tables with their rows."""
    tables = {
        "postgresql": "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    }
    of_mysql = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
    names = sorted(name for (name,) in database.rows(tables.get(database.kind, of_mysql)))
    return {name: sorted(map(repr, database.rows(f"SELECT * FROM {name}"))) for name in names}


_OFTEN = ("insert of all types", "upsert into a new table", "without schema")
_LONG = ("deletes",)


def _marked(name: str) -> Any:
    """The case, marked by how often it runs."""
    if name in _OFTEN:
        return name
    return pytest.param(name, marks=pytest.mark.long if name in _LONG else pytest.mark.soak)


@pytest.mark.parametrize("name", [_marked(name) for name in CASES])
def test_a_preview_tells_the_statements_that_then_run(
    shared: Engine, database: Database, preview: Callable[..., Told], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    if case.table:
        database.execute(case.table, "INSERT INTO t VALUES (9, 'before', 0.5)")
    before = everything(database)
    told = preview(case)
    assert not told.refused
    assert everything(database) == before

    sink = Sinking(shared, database, case.settings, schemas=case.schemas)
    try:
        ran = _running(sink, monkeypatch)
        sink.all(*case.records)
    finally:
        sink.stop()
    assert {_plain(one) for one in told.statements} - {_offsets(told)} == ran
    rows = {effect.row for effect in told.effects}
    assert rows - {None} == set(range(len(case.records)))


def test_a_table_that_may_not_be_made_is_told_of_each_record(preview: Callable[..., Told], database: Database) -> None:
    told = preview(Case(UPSERT, (order(1), keyed(2, None), typed(3))))
    assert set(told.refused) == {0, 1, 2}
    assert all("is missing and auto-creation is disabled; it would be: CREATE TABLE" in why
               for why in told.refused.values())  # fmt: skip
    assert "t" not in everything(database)


def test_a_parameter_is_what_the_column_gets(preview: Callable[..., Told], database: Database) -> None:
    database.execute(TABLE)
    told = preview(Case(UPSERT, (order(1, "grüße 'x'"), keyed(2, None))))
    ((_, first), (_, second)) = [(one.action, one) for one in told.effects if one.row is not None]
    assert (first.action, {name: str(value) for name, value in first.detail["parameters"].items()}) == (
        "upsert",
        {"id": "1", "name": "grüße 'x'", "amount": "1.5"},
    )
    assert (second.action, {name: str(value) for name, value in second.detail["parameters"].items()}) == (
        "delete",
        {"id": "2"},
    )


def _running(sink: Sinking, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The statements that change something, from now on."""
    ran: set[str] = set()

    def note(*given: Any) -> None:
        statement = _plain(given[2])
        if (
            statement.startswith(("CREATE", "ALTER", "INSERT", "UPDATE", "DELETE", "DROP"))
            and "connect_offsets" not in statement
        ):
            ran.add(statement)

    event.listen(sink.task._sink.database.engine, "before_cursor_execute", note)
    copy = staging._copy

    def noted(connection: Any, statement: str, rows: pa.RecordBatch) -> None:
        ran.add(_plain(statement))
        copy(connection, statement, rows)

    monkeypatch.setattr(staging, "_copy", noted)
    return ran


def _plain(statement: str) -> str:
    """The statement with one sign for the document of rows."""
    return statement.replace("%%", "%").replace("%s", ROWS).replace("json_each(?)", f"json_each({ROWS})")


def _offsets(told: Told) -> str:
    """The creation of the table of offsets."""
    found = (effect.detail["sql"] for effect in told.effects if effect.target == "connect_offsets")
    return next(found, "")
