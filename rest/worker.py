"""`/` and `/health`: the worker itself."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response

from headrace import CONNECT_VERSION
from headrace.rest import answers, documented
from headrace.rest.requests import HerderOf, MetricsOf, accepts_json

router = APIRouter(tags=["worker"], responses=documented.ERRORS, dependencies=[Depends(accepts_json)])

_HEALTH_STATUS = {"healthy": 200, "starting": 503, "unhealthy": 500}


@router.get("/", responses=documented.answers("Its version and its cluster.", documented.ROOT))
def root(herder: HerderOf) -> Response:
    answer = {"version": CONNECT_VERSION, "commit": "unknown", "kafka_cluster_id": herder.cluster_id}
    return JSONResponse(answer)


@router.get(
    "/health",
    responses=documented.answers("It takes requests.", documented.HEALTH)
    | documented.answers("It takes none any more.", documented.HEALTH, 500)
    | documented.answers("It is starting.", documented.HEALTH, 503),
)
def health(herder: HerderOf, metrics: MetricsOf) -> Response:
    found = herder.health()
    answer: dict[str, Any] = {"status": found.status, "message": found.message}
    # The worker stays healthy: a restart of it because of one task would stop all others, too.
    if stuck := metrics.stuck():
        answer["unhealthy_tasks"] = [answers.stuck_task(task, why) for task, why in stuck.items()]
    return JSONResponse(answer, _HEALTH_STATUS[found.status])
