"""The Datagen connector: the kit, its schemas, its state, its pace."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace.config.settings import ConfigError
from headrace.connectors.datagen.connector import AllGenerated, DatagenConnector, DatagenTask
from headrace.connectors.datagen.pace import Pace
from headrace.connectors.datagen.quickstarts import QUICKSTARTS
from headrace.plugins.contracts import Connector, Limit, TaskContext
from headrace.plugins.schema import SchemaType
from headrace.plugins.stopping import StopToken
from headrace.plugins.testkit import SourceContract, SourceDrive, SourceRig, start_tasks

CLASS = "io.confluent.kafka.connect.datagen.DatagenConnector"
LIMIT = Limit(10_000, 1 << 20)
COUNTED = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "n", "type": {"type": "long", "arg.properties": {"iteration": {"start": 0}}}},
            {"name": "s", "type": "string"},
        ],
    }
)


class Fed(DatagenTask):
    """Has as many records as the rig was given values."""

    values: ClassVar[list[Any]] = []

    def _left(self, number: int) -> int:
        return len(self.values) - number


class FedConnector(DatagenConnector):
    task = Fed


class Rig(SourceRig):
    """Stands each value for the number of a record."""

    knows_sizes = False

    def __init__(self) -> None:
        Fed.values = []

    def connector(self) -> Connector:
        return FedConnector()

    def config(self) -> dict[str, str]:
        return {"kafka.topic": "t", "max.interval": "0", "schema.string": COUNTED, "random.seed": "1"}

    def put(self, values: Sequence[Any]) -> None:
        Fed.values += values

    def value(self, row: Any) -> Any:
        return Fed.values[row["value"]["n"]]


class TestDatagen(SourceContract):
    @pytest.fixture
    def rig(self) -> SourceRig:
        return Rig()

    def test_partitions_are_stable_and_each_has_one_task(self, rig: SourceRig, drive: SourceDrive) -> None:
        """Each task has a partition of its own: more tasks generate more records."""
        tasks = start_tasks(rig.connector(), rig.config(), rig.worker, 3)
        assert [one.task.partitions() for one in tasks] == [({"task.id": number},) for number in range(3)]
        for one in tasks:
            one.end()


def started(number: int = 0, stored: Mapping[str, Any] | None = None, **config: str) -> DatagenTask:
    """A task with this stored offset."""
    task = DatagenTask()
    context = TaskContext("c", number, StopToken(), stored_offsets=lambda asked: [stored for _ in asked])
    task.start({"kafka.topic": "t", "max.interval": "0", "task.id": str(number), **dotted(config)}, context)
    return task


def dotted(config: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in config.items()}


def rows_of(task: DatagenTask, after: Any = None, rows: int = 5) -> tuple[list[Any], list[Any]]:
    """The next values, and their offsets."""
    plan = task.plan([after], Limit(rows, 1 << 20))
    assert plan is not None
    read = [row for batch in task.reader(plan).read(0) for row in batch.to_pylist()]
    return [row["value"] for row in read], [row["source_offset"] for row in read]


def problems(**config: str) -> dict[str, str]:
    connector = DatagenConnector()
    found = connector.validate({"kafka.topic": "t", **dotted(config)})
    return {one.key: f"{one.message} {one.remedy}" for one in found}


@pytest.mark.parametrize("name", QUICKSTARTS)
def test_each_quickstart_generates(name: str) -> None:
    task = started(quickstart=name.upper())
    values, _ = rows_of(task)
    assert len(values) == 5
    assert all(QUICKSTARTS[name].key in value for value in values)
    assert task._made.schema.name == QUICKSTARTS[name].schema["name"]


def test_the_same_seed_gives_the_same_records_and_each_task_its_own() -> None:
    first, _ = rows_of(started(quickstart="users", random__seed="7"))
    assert rows_of(started(quickstart="users", random__seed="7"))[0] == first
    assert rows_of(started(quickstart="users", random__seed="8"))[0] != first
    assert rows_of(started(1, quickstart="users", random__seed="7"))[0] != first
    assert rows_of(started(quickstart="users"))[0] != rows_of(started(quickstart="users"))[0]


def test_offsets_continue_the_state() -> None:
    whole, offsets = rows_of(started(quickstart="orders", random__seed="-7"), rows=10)
    stored = offsets[3]
    assert stored == {"task.generation": 1, "current.iteration": 4, "random.seed": -7}
    again = started(quickstart="orders", random__seed="9", stored=stored)
    rest, after = rows_of(again, stored, 6)
    assert rest == whole[4:]
    assert after[0] == {"task.generation": 2, "current.iteration": 5, "random.seed": -7}


def test_offsets_of_others_are_continued() -> None:
    stored = {"current.iteration": 5_000_000_000}
    values, offsets = rows_of(started(quickstart="inventory", stored=stored), stored, 2)
    assert [value["id"] for value in values] == [5_000_000_000, 5_000_000_001]
    assert offsets[1]["current.iteration"] == 5_000_000_002


def test_after_its_iterations_a_task_fails_also_if_it_is_started_again() -> None:
    task = started(quickstart="users", iterations="7")
    values, offsets = rows_of(task, rows=100)
    assert len(values) == 7
    for one in (task, started(quickstart="users", iterations="7", stored=offsets[-1])):
        with pytest.raises(AllGenerated, match=r"generated its 7 records \(iterations\) and is done"):
            one.plan([offsets[-1]], LIMIT)
    assert len(rows_of(started(quickstart="users", iterations="9"), offsets[-1], 100)[0]) == 2


def test_a_plan_keeps_to_its_limit_of_bytes() -> None:
    wide = json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "s", "type": {"type": "string", "arg.properties": {"length": 100_000}}}],
        }
    )
    task = started(schema__string=wide)
    plan = task.plan([None], Limit(10_000, 1 << 20))
    assert plan is not None
    assert plan.rows == 10
    assert [len(batch) for batch in task.reader(plan).read(0)] == [10]


def test_schemas_have_comments_and_come_from_files(tmp_path: Path) -> None:
    text = COUNTED.replace('"fields"', '// a comment, "quoted"\n"doc": "http://no.comment",\n"fields"')
    file = tmp_path / "schema.avsc"
    file.write_text(text, encoding="utf-8")
    for config in ({"schema__string": text}, {"schema__filename": str(file)}):
        task = started(schema__keyfield="n", **config)
        assert rows_of(task)[0][1]["n"] == 1
        assert task._made.key == "n"


def test_files_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "options.json").write_text('["a"]', encoding="utf-8")
    connector = DatagenConnector()
    connector.worker = {"file.allowed.paths": [str(tmp_path / "in")]}
    options = {"options": {"file": str(tmp_path / "options.json"), "encoding": "json"}}
    field = {"name": "f", "type": {"type": "string", "arg.properties": options}}
    text = json.dumps({"type": "record", "name": "R", "fields": [field]})
    (found,) = connector.validate({"kafka.topic": "t", "schema.string": text})
    assert "outside of file.allowed.paths" in found.message


def test_what_is_wrong_is_said_at_its_setting() -> None:
    assert set(problems()) == {"quickstart", "schema.string", "schema.filename"}
    assert set(problems(quickstart="users", schema__string="{}")) == {"quickstart", "schema.string"}
    assert "There are campaign_finance, " in problems(quickstart="nobody")["quickstart"]
    assert "Invalid Avro schema" in problems(schema__string="{")["schema.string"]
    assert "no record" in problems(schema__string='"int"')["schema.string"]
    assert "contains itself" in problems(schema__string=COUNTED.replace('"string"', '"R"'))["schema.string"]
    assert "cannot be read" in problems(schema__filename="/nowhere/at.all")["schema.filename"]
    assert "It has n, s." in problems(schema__string=COUNTED, schema__keyfield="m")["schema.keyfield"]
    assert not problems(quickstart="Stock_Trades", schema__keyfield="userid")


def test_annotations_beside_their_type_are_advised_of() -> None:
    beside = {"name": "f", "type": "int", "arg.properties": {"range": {"min": 1}}}
    inner = {"name": "i", "type": ["null", {"type": "record", "name": "I", "fields": [beside]}]}
    text = json.dumps({"type": "record", "name": "R", "fields": [inner]})
    (found,) = DatagenConnector().advise({"schema.string": text})
    assert "of f, because it stands beside the type" in found.message
    assert not problems(schema__string=text)
    assert not list(DatagenConnector().advise({"schema.string": COUNTED}))
    assert not list(DatagenConnector().advise({"schema.string": "{"}))


def test_logical_types_keep_their_connect_schema() -> None:
    fields = {one.name: one.schema for one in started(quickstart="purchases")._made.schema.fields}
    assert fields["price_per_unit"].name == "org.apache.kafka.connect.data.Decimal"
    assert fields["id"].type is SchemaType.INT64


def test_tasks_have_their_numbers() -> None:
    connector = DatagenConnector()
    context: Any = None
    connector.start({"kafka.topic": "t", "quickstart": "users"}, context)
    assert [one["task.id"] for one in connector.task_configs(3)] == ["0", "1", "2"]
    assert started(2, quickstart="users").partitions() == ({"task.id": 2},)


def test_offsets_that_an_operator_sets() -> None:
    def check(partition: Any, offset: Any) -> bool:
        return DatagenConnector().check_offsets({}, {"offsets": [{"partition": partition, "offset": offset}]})

    state = {"task.generation": 1, "current.iteration": 5, "random.seed": -3}
    assert check({"task.id": 0}, state)
    assert check({"task.id": 3}, None)
    assert check({"task.id": 0}, {"current.iteration": 0})
    for partition, offset in (
        ({"task": 0}, state),
        ({"task.id": "0"}, state),
        ({"task.id": 0}, {"current.iteration": -1}),
        ({"task.id": 0}, {"current.iteration": 1, "position": 3}),
        ({"task.id": 0}, {"current.iteration": 1, "random.seed": "a"}),
        ({"task.id": 0}, {}),
    ):
        with pytest.raises(ValueError, match="none of Datagen's"):
            check(partition, offset)


def test_small_pauses_make_no_batch_of_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    pace, batches = Pace(0.002, clock.token), []
    until = clock.now + 10
    while clock.now < until:
        batches.append(pace.due(100_000))
    assert len(batches) <= 10 / 0.05 + 2
    assert 9_000 < sum(batches) < 11_000  # a pause of 1 ms in the mean


def test_large_pauses_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    pace, due = Pace(4.0, clock.token), []
    while len(due) < 200:
        if pace.due(100):
            due.append(clock.now)
    pauses = [after - before for before, after in itertools.pairwise(due)]
    assert 1.7 < sum(pauses) / len(pauses) < 2.3
    assert max(pauses) <= 4.0
    clock.now += 3_600  # as after a pause of the task: it does not catch up
    assert pace.due(100_000) <= 3


def test_without_pauses_all_is_due() -> None:
    assert Pace(0.0, StopToken()).due(5) == 5
    assert Pace(-1.0, StopToken()).due(5) == 5


class Clock:
    """A clock that goes on by waiting only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self.token: Any = self
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds


def test_wrong_settings_fail_a_task() -> None:
    with pytest.raises(ConfigError, match="no such quickstart"):
        started(quickstart="nobody")
