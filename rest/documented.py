"""What the OpenAPI document says of requests and answers; nothing is checked by it, so that no client is told 422."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import BeforeValidator

Schema = dict[str, Any]
Responses = dict[int | str, dict[str, Any]]

Flag = Annotated[bool, BeforeValidator(lambda text: str(text).lower() == "true")]
"""True where its text is `true`, in any case, and else false: Python's clients send `True`."""

IncludeTasks = Annotated[Flag, Query(alias="includeTasks", description="Whether its tasks too are restarted.")]
OnlyFailed = Annotated[Flag, Query(alias="onlyFailed", description="Whether only what FAILED is restarted.")]
ConnectorsOnly = Annotated[Flag, Query(alias="connectorsOnly", description="Whether only connectors are listed.")]
Expand = Annotated[
    list[str], Query(default_factory=list, description="`status`, `info` or both: what is told of each connector.")
]
Scope = Annotated[str, Query(description="`worker`, this one alone, or `cluster`.")]


def _object(**members: Schema) -> Schema:
    return {"type": "object", "properties": members, "required": list(members)}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _optional(schema: Schema, *names: str) -> Schema:
    return {**schema, "required": [name for name in schema["required"] if name not in names]}


_TEXT: Final = {"type": "string"}
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}
_NUMBER: Final = {"type": "integer"}
_FLAG: Final = {"type": "boolean"}
_STATE: Final[Schema] = {"enum": ["UNASSIGNED", "RUNNING", "PAUSED", "FAILED", "RESTARTING", "STOPPED"]}
_TYPE: Final[Schema] = {"enum": ["source", "sink", "unknown"]}

CONFIG: Final = _map(_TEXT_OR_NULL)
_TASK_ID: Final = _object(connector=_TEXT, task=_NUMBER)
_STATUS: Final[dict[str, Schema]] = {"state": _STATE, "worker_id": _TEXT, "version": _TEXT, "trace": _TEXT}

ROOT: Final = _object(version=_TEXT, commit=_TEXT, kafka_cluster_id=_TEXT_OR_NULL)
HEALTH: Final = _object(status={"enum": ["healthy", "starting", "unhealthy"]}, message=_TEXT)
CONNECTOR_INFO: Final = _object(name=_TEXT, config=CONFIG, tasks=_list(_TASK_ID), type=_TYPE)
TASK_STATE: Final[Schema] = _optional(_object(id=_NUMBER, **_STATUS), "version", "trace")
CONNECTOR_STATE: Final[Schema] = _object(
    name=_TEXT,
    connector=_optional(_object(**_STATUS), "version", "trace"),
    tasks=_list(TASK_STATE),
    type=_TYPE,
)
TASK_INFOS: Final = _list(_object(id=_TASK_ID, config=CONFIG))
CONNECTORS: Final = {
    "anyOf": [_list(_TEXT), _map(_optional(_object(status=CONNECTOR_STATE, info=CONNECTOR_INFO), "status", "info"))]
}
TOPICS: Final = _map(_object(topics=_list(_TEXT)))
_OFFSET: Final = _object(partition={"type": "object"}, offset={"type": ["object", "null"]})
OFFSETS: Final = _object(offsets=_list(_OFFSET))
MESSAGE: Final = _object(message=_TEXT)
PLUGINS: Final = _list(_optional(_object(**{"class": _TEXT}, type=_TEXT, version=_TEXT), "version"))
_NAMED: Final = _object(name=_TEXT)
PLUGIN_SETTINGS: Final = _list(_NAMED)
VALIDATION: Final = _object(
    name=_TEXT,
    error_count=_NUMBER,
    groups=_list(_TEXT),
    configs=_list(
        _object(
            definition={**_NAMED, "type": ["object", "null"]},
            value=_object(
                name=_TEXT, value=_TEXT_OR_NULL, recommended_values=_list({}), errors=_list(_TEXT), visible=_FLAG
            ),
        )
    ),
)
LOGGER: Final = _object(level=_TEXT_OR_NULL, last_modified={"type": ["integer", "null"]})
LOGGERS: Final = _map(LOGGER)
NAMES: Final = _list(_TEXT)
LEVEL: Final = _object(level=_TEXT)
CREATION: Final = _optional(
    _object(name=_TEXT, config=CONFIG, initial_state={"enum": ["RUNNING", "PAUSED", "STOPPED"]}),
    "name",
    "initial_state",
)
WANTED_OFFSETS: Final = {**OFFSETS, "properties": {"offsets": {**_list(_OFFSET), "minItems": 1}}}
TASK_CONFIGS: Final = _list(CONFIG)

_ERROR: Final = _object(error_code=_NUMBER, message=_TEXT)


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def answers(description: str, schema: Schema | None = None, status: int = 200) -> Responses:
    """One answer of an endpoint; merge several with `|`."""
    content = {} if schema is None else {"content": _json(schema)}
    return {status: {"description": description, **content}}


def body(schema: Schema) -> dict[str, Any]:
    """The body that an endpoint takes, for `openapi_extra`."""
    return {"requestBody": {"required": True, "content": _json(schema)}}


ERRORS: Final[Responses] = {"default": {"description": "It cannot be done.", "content": _json(_ERROR)}}
"""What every endpoint may answer."""
