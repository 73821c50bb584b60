"""`/`, `/health` and `/admin/loggers`: the worker itself."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from headrace import CONNECT_VERSION
from headrace.rest.requests import HerderOf, JsonObject, text_of
from headrace.worker import logs
from headrace.worker.herder import BadRequest, NotFound

router = APIRouter()

_HEALTH_STATUS = {"healthy": 200, "starting": 503, "unhealthy": 500}


@router.get("/")
def root(herder: HerderOf) -> Response:
    answer = {"version": CONNECT_VERSION, "commit": "unknown", "kafka_cluster_id": herder.cluster_id}
    return JSONResponse(answer)


@router.get("/health")
def health(herder: HerderOf) -> Response:
    found = herder.health()
    return JSONResponse({"status": found.status, "message": found.message}, _HEALTH_STATUS[found.status])


@router.get("/admin/loggers")
def loggers() -> Response:
    return JSONResponse({name: _logger(*found) for name, found in logs.levels().items()})


@router.get("/admin/loggers/{name:segment}")
def logger(name: str) -> Response:
    found = logs.level(name)
    if found is None:
        raise NotFound(f"Logger {name} not found.")
    return JSONResponse(_logger(*found))


@router.put("/admin/loggers/{name:segment}")
def set_level(name: str, request: Request, body: JsonObject) -> Response:
    wanted = text_of(body.get("level"))
    if wanted is None:
        raise BadRequest("Desired 'level' parameter was not specified in request.")
    if wanted.upper() not in logs.LEVELS:
        raise NotFound(f"invalid log level '{wanted}'.")
    affected = logs.set_level(name, wanted.upper())
    # A cluster of one worker: every worker has it now.
    return Response(status_code=204) if request.query_params.get("scope") == "cluster" else JSONResponse(affected)


def _logger(level: str, last_modified: int | None) -> dict[str, object]:
    return {"level": level, "last_modified": last_modified}
