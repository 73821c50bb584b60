from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.config.plugin_path import ConfiguredJar, JarPlugin, JavaStage, JavaStep
from headrace.connectors.java import stage as module
from headrace.connectors.java.batches import ROUTING
from headrace.connectors.java.errors import HostLost
from headrace.connectors.java.stage import HostStage, told_stage
from headrace.plugins.contracts import TaskContext
from headrace.plugins.schema import STRING
from headrace.plugins.stopping import StopToken
from tests.unit.connectors.java.fake_host import NotingHost

STAGE = JavaStage((JavaStep(ConfiguredJar(JarPlugin("org.x.T", "transformation", Path("/p"), (), None), {})),))


class FakeHost(NotingHost):
    """Gives what a test has laid out for `stage.apply`."""

    def __init__(self) -> None:
        super().__init__()
        self.heads: list[Mapping[str, Any]] = []
        self.ends = True
        self.limits: list[float] = []

    def call(self, name: str, limit_s: float, /, **given: Any) -> Any:
        self.calls.append((name, given))
        return self.ends

    def call_for_data(self, name: str, limit_s: float, /, **given: Any) -> tuple[Any, bytearray]:
        self.calls.append((name, given))
        self.limits.append(limit_s)
        if self.is_lost:
            raise HostLost("it ended")
        return self.heads.pop(0), bytearray()

    def post(self, name: str, /, **given: Any) -> None:
        if self.is_lost:
            raise HostLost("it ended")
        super().post(name, **given)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    made = FakeHost()

    def rows(data: bytearray, head: Mapping[str, Any], shape: object) -> pa.RecordBatch:
        return pa.record_batch({"n": list(range(head["rows"])), "source_offset": list(range(head["rows"]))})

    monkeypatch.setattr(module, "running_host", lambda: made)
    monkeypatch.setattr(module, "batch_of", rows)
    return made


@pytest.fixture
def stage(host: FakeHost) -> HostStage:
    made = HostStage()
    made.start(STAGE, TaskContext("c", 0, StopToken()), is_source=True)
    return made


def head(rows: int, columns: list[int], **schemas: list[Any]) -> dict[str, Any]:
    told = {"keys": [], "values": [], **schemas, "key_columns": [], "value_columns": columns}
    return {"rows": rows, "era": 0, "first": 0, **told, "has_failures": False}


def rows(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"value_0": pa.array(values, pa.string())})


def test_a_schema_is_told_once_and_shapes_have_what_is_in_a_batch(stage: HostStage, host: FakeHost) -> None:
    host.heads = [head(2, [0], values=[{"type": "string", "optional": False}]), head(1, [0, 1], values=[None])]
    stage._schemas.sides["value"].append(STRING)
    first, made = stage.apply(rows("a", "b"), {"file": "f"})
    assert made.to_pydict() == {"n": [0, 1]}
    second, _ = stage.apply(rows("c"))
    shown = [[field.name for field in stage.row_type(shape).fields[len(ROUTING) :]] for shape in (first, second)]
    assert shown == [["value_0"], ["value_0", "value_1"]]
    told = [given for name, given in host.calls if name == "stage.apply"]
    assert [one["schemas"]["values"] for one in told] == [[[0, {"type": "string", "optional": False}]], []]
    assert [(one["rows"], one["values"], one["partition"]) for one in told] == [
        (2, [0], '{"file": "f"}'),
        (1, [0], None),
    ]
    assert struct.unpack_from("<q", told[0]["data"]) == (2,)


def test_a_lost_host_fails_the_task(stage: HostStage, host: FakeHost) -> None:
    host.is_lost = True
    with pytest.raises(HostLost):
        stage.apply(rows("a"))
    stage.stop()
    assert [name for name, _ in host.calls] == ["stage.start", "stage.apply"]


def test_a_host_in_which_its_call_goes_on_gets_nothing_new(stage: HostStage, host: FakeHost) -> None:
    host.ends = False
    stage.stop()
    assert host.is_retired
    with pytest.raises(HostLost, match="has ended"):
        stage.apply(rows("a"))


@pytest.mark.parametrize(("is_source", "limit_s"), [(True, math.inf), (False, 280.0)])
def test_only_a_sinks_batch_has_a_limit(host: FakeHost, is_source: bool, limit_s: float) -> None:
    stage = HostStage()
    stage.start(STAGE, TaskContext("c", 0, StopToken()), is_source)
    host.heads = [head(1, [])]
    stage.apply(rows("a"))
    assert host.limits == [limit_s]


def test_waits_end_and_calls_go_on(stage: HostStage, host: FakeHost) -> None:
    stage.end_waits()
    assert host.calls[1:] == [("stage.end_waits", {"task": 7})]
    host.is_lost = True
    stage.end_waits()
    stage.stop()
    stage.end_waits()


def test_what_cannot_be_carried_names_who_made_it() -> None:
    key, value, header = (
        ConfiguredJar(JarPlugin(f"org.x.{name}", "converter", Path("/p"), (), None), {}) for name in "KVH"
    )
    converters = {"key": key, "value": value, "header": header}
    stages = {
        "org.x.T": JavaStage(STAGE.steps, converters),
        "org.x.V": JavaStage((), converters),
        "org.x.K": JavaStage((), {"key": key, "header": header}),
        "org.x.H": JavaStage((), {"header": header}),
    }
    assert [module._blamed(one) for one in stages.values()] == list(stages)


def test_the_host_is_told_of_classes_with_their_jars() -> None:
    transform = JarPlugin("org.x.T", "transformation", Path("/p/x"), (Path("/p/x/a.jar"),), "1")
    own = JarPlugin("org.apache.kafka.connect.transforms.predicates.HasHeaderKey", "predicate", Path(), (), None)
    step = JavaStep(ConfiguredJar(transform, {"a": "b"}), ConfiguredJar(own, {"name": "h"}), negate=True)
    assert told_stage(JavaStage((step,), tolerate=True, retry_timeout_ms=-1, retry_delay_max_ms=5)) == {
        "steps": [
            {
                "transform": {
                    "plugin": {"class": "org.x.T", "location": "/p/x", "jars": ["/p/x/a.jar"]},
                    "config": {"a": "b"},
                },
                "predicate": {
                    "plugin": {"class": own.class_name, "location": ".", "jars": []},
                    "config": {"name": "h"},
                },
                "negate": True,
            }
        ],
        "converters": {},
        "tolerate": True,
        "retry_ms": -1,
        "most_delay_ms": 5,
    }
    assert told_stage(JavaStage(tolerate=True)) is None
