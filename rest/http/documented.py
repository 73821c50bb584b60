"""Describes requests and answers for the OpenAPI document; it validates nothing, so no answer is a 422."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import BeforeValidator, TypeAdapter

from headrace.rest.http.bodies import ErrorMessage
from headrace.worker.preview.model import MOST_RECORDS

Responses = dict[int | str, dict[str, Any]]

Flag = Annotated[bool, BeforeValidator(lambda text: str(text).lower() == "true")]
"""True if the text is `true` in any case (Python's clients send `True`), else false."""

Strict = Annotated[
    bool,
    BeforeValidator(lambda text: str(text).lower() in ("", "true")),
    Query(description="Whether FAILED tasks here, and Kafka being away for long, are answered with 503."),
]
"""`?strict` alone is true."""

IncludeTasks = Annotated[Flag, Query(alias="includeTasks", description="Whether its tasks are restarted, too.")]
OnlyFailed = Annotated[Flag, Query(alias="onlyFailed", description="Whether only what FAILED is restarted.")]
ConnectorsOnly = Annotated[Flag, Query(alias="connectorsOnly", description="Whether only connectors are listed.")]
Version = Annotated[str, Query(description="Which version: a range such as `[1.0,2.0)`, one version, or `latest`.")]
Minutes = Annotated[str, Query(description="The number of last minutes, from 1 to 60.")]
Expand = Annotated[
    list[str], Query(default_factory=list, description="`status`, `info` or both: the members of each connector.")
]
Time = Annotated[
    str,
    Query(description="An instant in ISO 8601, in UTC unless it says otherwise.", examples=["2026-11-28T17:00:00Z"]),
]
Records = Annotated[
    str, Query(description=f"The most records: 1 to {MOST_RECORDS}.", json_schema_extra={"type": "integer"})
]
From = Annotated[
    str,
    Query(alias="from", description="`stored`, `earliest`; for a sink also `latest`, an offset or a time (ISO 8601)."),
]
Diff = Annotated[Flag, Query(description="Whether each record has its differences from the config that runs.")]
Scope = Annotated[str, Query(description="`worker`, this one alone, or `cluster`.")]


def answers(description: str, body: Any = None, status: int | str = 200) -> Responses:
    """One answer of an endpoint; `body` is its type. Merge several with `|`."""
    return {status: {"description": description, **({} if body is None else {"model": body})}}


def takes(body: Any) -> dict[str, Any]:
    """The type of an endpoint's request body, for `openapi_extra`."""
    schema = TypeAdapter(body).json_schema()
    inlined = _inlined(schema, schema.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": inlined}}}}


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """The schema with its definitions inlined: FastAPI's document has only those of answers."""
    if isinstance(schema, list):
        return [_inlined(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {key: _inlined(value, definitions) for key, value in schema.items()}


ERRORS: Final[Responses] = answers("It cannot be done.", ErrorMessage, "default")
"""Every endpoint's answer to a failed request."""
