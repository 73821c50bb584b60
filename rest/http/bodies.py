"""The JSON bodies of requests and answers, declared once for sending and for the OpenAPI document.

Answers have Connect's members in Connect's order. `requests.py` reads requests; its refusals are Connect's.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from fastapi.responses import Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import to_json
from typing_extensions import TypedDict  # Python 3.11's own is not pydantic's

from headrace.config.lint.finding import Finding, Severity
from headrace.worker.model import ConnectorInfo, ConnectorState, Offset, PluginInfo, State, Status, TaskId, TaskInfo
from headrace.worker.preview.model import Preview
from headrace.worker.tasks.metrics import Stuck

Config = dict[str, str | None]
ConnectorType = Annotated[str, Field(json_schema_extra={"enum": ["source", "sink", "unknown"]})]
# Terraform's client reads every member of a status as text, so empty ones are left out.
TextOrAbsent = Annotated[str, BeforeValidator(lambda text: text or ""), Field(default="", exclude_if=operator.not_)]


class Body(BaseModel):
    """A JSON object; can be made from an object of `worker/model.py` with the same members."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


def json_answer(
    body: Body | Sequence[Body | str] | Mapping[str, Any] | Preview,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer with this body."""
    return Response(to_json(body, by_alias=True, inf_nan_mode="null"), status, headers, "application/json")


class ErrorMessage(Body):
    """The reason that a request failed."""

    error_code: int
    message: str


class ServerInfo(Body):
    """The worker's version and its Kafka cluster."""

    version: str
    commit: str
    kafka_cluster_id: str | None


class UnhealthyTask(Body):
    """A task that is RUNNING and does not move."""

    connector: str
    task: int
    state: str
    reason: str
    message: str

    @classmethod
    def of(cls, task: TaskId, stuck: Stuck) -> Self:
        return cls(connector=task.connector, task=task.task, state="UNHEALTHY", reason=stuck.reason, message=stuck.text)


class WorkerHealth(Body):
    """The worker's readiness for requests, and its unhealthy tasks."""

    status: Annotated[str, Field(json_schema_extra={"enum": ["healthy", "starting", "unhealthy"]})]
    message: str
    unhealthy_tasks: Annotated[list[UnhealthyTask], Field(default_factory=list, exclude_if=operator.not_)]


class FlowsHealth(Body):
    """The health of a MirrorMaker process: the worst of its flows'."""

    status: str
    message: str
    flows: dict[str, WorkerHealth]


class ConnectorTaskId(Body):
    """A task of a connector."""

    connector: str
    task: int


class SeriesFigures(TypedDict):
    """A figure of each series; null if it is not known."""

    records_per_s: float | None
    bytes_per_s: float | None
    lag_records: float | None
    errors: float | None
    lag_s: float | None
    batch_ms: float | None


class SeriesSteps(TypedDict):
    """The steps of each series, the last one last."""

    records_per_s: list[float | None]
    bytes_per_s: list[float | None]
    lag_records: list[float | None]
    errors: list[float | None]
    lag_s: list[float | None]
    batch_ms: list[float | None]


class ConnectorSeries(Body):
    """The last minutes of a connector; `until` is the end of the last step, in seconds of the epoch."""

    step_s: int
    until: int
    series: SeriesSteps
    skipped: dict[str, str]
    """The workers that did not answer, each with the reason."""


class AllSeries(ConnectorSeries):
    """The last minutes of all connectors together, and the last step of each one."""

    connectors: dict[str, SeriesFigures]


class WrittenLine(Body):
    """A line of a worker's log; `at` is in milliseconds of the epoch."""

    worker: str
    at: int
    level: str
    text: str


class ConnectorLog(Body):
    """The last log lines of a connector, the last one last."""

    lines: list[WrittenLine]
    skipped: dict[str, str]
    """The workers that did not answer, each with the reason."""


class ConfiguredConnector(Body):
    """A connector as it is configured: Connect's ConnectorInfo."""

    name: str
    config: Config
    tasks: list[ConnectorTaskId]
    type: ConnectorType

    @classmethod
    def of(cls, info: ConnectorInfo, shown: Config) -> Self:
        """Describe a connector; `shown`: its config as clients see it."""
        return cls.model_validate({**vars(info), "config": shown})


class ConfiguredTask(Body):
    """A task as its connector configured it: Connect's TaskInfo."""

    id: ConnectorTaskId
    config: Config

    @classmethod
    def of(cls, info: TaskInfo, shown: Config) -> Self:
        """Describe a task; `shown`: its config as clients see it."""
        return cls.model_validate({"id": info.id, "config": shown})


class InstanceState(Body):
    """The state of a connector's instance."""

    state: State
    worker_id: str
    version: TextOrAbsent
    trace: TextOrAbsent


class TaskState(Body):
    """The state of a task."""

    id: int
    state: State
    worker_id: str
    version: TextOrAbsent
    trace: TextOrAbsent

    @classmethod
    def of(cls, number: int, status: Status) -> Self:
        return cls(id=number, **vars(status))


class ConnectorStateInfo(Body):
    """The states of a connector and of its tasks."""

    name: str
    connector: InstanceState
    tasks: list[TaskState]
    type: ConnectorType

    @classmethod
    def of(cls, state: ConnectorState) -> Self:
        tasks = [{"id": number, **vars(status)} for number, status in sorted(state.tasks.items())]
        return cls.model_validate({**vars(state), "tasks": tasks})


class ExpandedConnector(TypedDict, total=False):
    """A connector in the list of all, with its status, its info or both, in the order of the request."""

    status: ConnectorStateInfo
    info: ConfiguredConnector


class UsedTopics(Body):
    """The topics that a connector used."""

    topics: list[str]


class PartitionOffset(Body):
    """A partition and its offset; a null offset in a request resets the partition."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None


class ConnectorOffsets(Body):
    """The offsets of a connector."""

    offsets: list[PartitionOffset]

    @classmethod
    def of(cls, found: Sequence[Offset]) -> Self:
        return cls(offsets=[PartitionOffset(partition=at, offset=to) for at, to in found])


class WantedOffsets(ConnectorOffsets):
    """Offsets to set."""

    offsets: Annotated[list[PartitionOffset], Field(min_length=1)]


class Difference(Body):
    """A value before and after a change; null if there was none."""

    before: Any
    after: Any


class RecordedChange(Body):
    """A change of a connector, with who asked for it."""

    revision: int
    at: str
    by: str | None
    origin: str = Field(alias="from")
    change: Annotated[str, Field(json_schema_extra={"enum": ["config", "state", "offsets", "delete"]})]
    state: Annotated[str | None, Field(json_schema_extra={"enum": ["RUNNING", "PAUSED", "STOPPED", None]})]
    differences: dict[str, Difference]


class WantedRevision(Body):
    """The revision whose config a connector is to have again."""

    revision: int


class Message(Body):
    """A sentence about the outcome of a request."""

    message: str


class InstalledPlugin(Body):
    """A plugin that can be used here: Connect's PluginInfo."""

    class_name: str = Field(alias="class")
    type: str
    version: TextOrAbsent

    @classmethod
    def of(cls, info: PluginInfo) -> Self:
        return cls.model_validate({**vars(info), "class": info.class_name})


class ConfigKeyInfo(Body):
    """The definition of a setting; `config/` has all its members."""

    model_config = ConfigDict(extra="allow")

    name: str


class ConfigValueInfo(Body):
    """The value of a setting, and what is wrong with it."""

    name: str
    value: str | None
    recommended_values: list[Any]
    errors: list[str]
    visible: bool


class ConfigInfo(Body):
    """A setting of a config that was validated."""

    definition: ConfigKeyInfo | None
    value: ConfigValueInfo


class ConfigInfos(Body):
    """The outcome of a validation."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[ConfigInfo]


class PreviewedConfig(Body):
    """A config, or changes of one; beside its settings it may have records in place of a source's."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str | None]

    sample: list[dict[str, Any]] = []


class LintFinding(Body):
    """One finding of a rule."""

    rule: str
    severity: Annotated[str, Field(json_schema_extra={"enum": [str(one) for one in Severity]})]
    setting: Annotated[str | None, Field(default=None, exclude_if=operator.not_)]
    message: str
    advice: str


class LintFindings(Body):
    """The findings of lint about a config, grave ones first."""

    findings: list[LintFinding]

    @classmethod
    def of(cls, found: Sequence[Finding]) -> Self:
        return cls(findings=[LintFinding.model_validate(one) for one in found])


class LoggerLevel(Body):
    """A logger's level, and when it was last changed, in milliseconds of the epoch."""

    level: str | None
    last_modified: int | None


class WantedLevel(Body):
    """A level for a logger."""

    level: str


class NewConnector(Body):
    """A connector to create; its name may stand in its config instead."""

    name: str = ""
    config: Config
    initial_state: Annotated[str, Field(json_schema_extra={"enum": ["RUNNING", "PAUSED", "STOPPED"]})] = "RUNNING"
