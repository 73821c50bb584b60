"""`/admin`: log levels, and draining the worker; on its own listeners if `admin.listeners` is set."""

from __future__ import annotations

import logging
from typing import Final

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from headrace.config.worker.rights import Right
from headrace.rest.http import documented
from headrace.rest.http.bodies import LoggerLevel, WantedLevel, json_answer
from headrace.rest.http.requests import HerderOf, JsonObject, speaks_json, text_of
from headrace.rest.security.access import needs
from headrace.rest.security.audit import ChangeOf
from headrace.worker.errors import BadRequest, NotFound
from headrace.worker.logging import logs

log = logging.getLogger(__name__)

router = APIRouter(prefix="/admin", tags=["admin"], responses=documented.ERRORS, dependencies=[Depends(speaks_json)])

_ADMIN: Final = [needs(Right.ADMIN)]


@router.get(
    "/loggers",
    dependencies=_ADMIN,
    responses=documented.answers("Every logger with a level of its own.", dict[str, LoggerLevel]),
)
def loggers() -> Response:
    return json_answer({name: _logger(*found) for name, found in logs.levels().items()})


@router.get(
    "/loggers/{name:segment}", dependencies=_ADMIN, responses=documented.answers("The logger's level.", LoggerLevel)
)
def logger(name: str) -> Response:
    found = logs.level(name)
    if found is None:
        raise NotFound(f"Logger {name} not found.")
    return json_answer(_logger(*found))


@router.put(
    "/loggers/{name:segment}",
    dependencies=_ADMIN,
    responses=documented.answers("The loggers that have it now.", list[str])
    | documented.answers("Every worker will have it.", status=204),
    openapi_extra=documented.takes(WantedLevel),
)
def set_level(
    name: str, body: JsonObject, herder: HerderOf, change: ChangeOf, scope: documented.Scope = "worker"
) -> Response:
    wanted = text_of(body.get("level"))
    change.tells(level=wanted)
    if wanted is None:
        raise BadRequest("Desired 'level' parameter was not specified in request.")
    if wanted.upper() not in logs.LEVELS:
        raise NotFound(f"invalid log level '{wanted}'.")
    if scope.lower() == "cluster":
        herder.set_cluster_level(name, wanted.upper())
        return Response(status_code=204)
    if scope.lower() != "worker":
        log.warning("The scope '%s' of a log level is neither worker nor cluster; it is set for this worker", scope)
    return json_answer(logs.set_level(name, wanted.upper()))


@router.put(
    "/drain",
    dependencies=_ADMIN,
    status_code=202,
    response_class=Response,
    response_description="It is under way.",
)
def drain(herder: HerderOf) -> Response:
    herder.drain()
    return Response(status_code=202)


def _logger(level: str, last_modified: int | None) -> LoggerLevel:
    return LoggerLevel(level=level, last_modified=last_modified)
