"""`/` and `/health`: the worker itself."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from headrace import CONNECT_VERSION
from headrace.rest import documented
from headrace.rest.bodies import ServerInfo, UnhealthyTask, WorkerHealth, json_answer
from headrace.rest.requests import HerderOf, MetricsOf, accepts_json

router = APIRouter(tags=["worker"], responses=documented.ERRORS, dependencies=[Depends(accepts_json)])

HEALTH_STATUS: Final = {"healthy": 200, "starting": 503, "unhealthy": 500}
"""The status of an answer by the health that it tells."""


@router.get("/", responses=documented.answers("Its version and its cluster.", ServerInfo))
def root(herder: HerderOf) -> Response:
    return json_answer(ServerInfo(version=CONNECT_VERSION, commit="unknown", kafka_cluster_id=herder.cluster_id))


@router.get(
    "/health",
    responses=documented.answers("It takes requests.", WorkerHealth)
    | documented.answers("It takes none any more.", WorkerHealth, 500)
    | documented.answers("It is starting.", WorkerHealth, 503),
)
def health(herder: HerderOf, metrics: MetricsOf) -> Response:
    found = herder.health()
    # The worker stays healthy: a restart of it because of one task would stop all others, too.
    unhealthy = [UnhealthyTask.of(task, stuck) for task, stuck in metrics.stuck().items()]
    answer = WorkerHealth(status=found.status, message=found.message, unhealthy_tasks=unhealthy)
    return json_answer(answer, HEALTH_STATUS[found.status])
