"""`/` and `/health`: version, cluster and health of the worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from headrace.config.worker.rights import Right
from headrace.rest.http import documented
from headrace.rest.http.bodies import ServerInfo, UnhealthyTask, WorkerHealth, json_answer
from headrace.rest.http.requests import HerderOf, MetricsOf, speaks_json
from headrace.rest.security.access import NEEDS_NOTHING, AccessOf
from headrace.rest.security.rights import Access
from headrace.worker.herder.api import Herder
from headrace.worker.herder.metrics import WorkerMetrics

router = APIRouter(tags=["worker"], responses=documented.ERRORS, dependencies=[Depends(speaks_json)])

HEALTH_STATUS: Final = {"healthy": 200, "starting": 503, "unhealthy": 500}
"""The HTTP status for each health."""
_NAMED: Final = 20


@router.get("/", dependencies=[NEEDS_NOTHING], responses=documented.answers("Its version and its cluster.", ServerInfo))
def root(herder: HerderOf, metrics: MetricsOf) -> Response:
    return json_answer(ServerInfo(version=metrics.version, commit="unknown", kafka_cluster_id=herder.cluster_id))


@router.get(
    "/health",
    dependencies=[NEEDS_NOTHING],
    responses=documented.answers("It takes requests.", WorkerHealth)
    | documented.answers("It takes none any more.", WorkerHealth, 500)
    | documented.answers("It is starting, or strictly asked not well.", WorkerHealth, 503),
)
def health(
    request: Request, herder: HerderOf, metrics: MetricsOf, access: AccessOf, strict: documented.Strict = False
) -> Response:
    found = herder.health()
    # The worker stays healthy: a restart because of one task would stop all others, too.
    unhealthy = unhealthy_tasks(metrics, access)
    if strict and found.status == "healthy":
        troubles = [*_away(herder, request.app.state.kafka_away_s), *_failed(metrics, access)]
        if troubles:
            answer = WorkerHealth(status="unhealthy", message="; ".join(troubles), unhealthy_tasks=unhealthy)
            return json_answer(answer, 503)
    message = found.message
    if found.status == "healthy" and access.grants.may_any(Right.VIEW):  # the trouble names hosts
        message = " ".join(filter(None, (message, metrics.process.executors_trouble())))
    answer = WorkerHealth(status=found.status, message=message, unhealthy_tasks=unhealthy)
    return json_answer(answer, HEALTH_STATUS[found.status])


def unhealthy_tasks(metrics: WorkerMetrics, access: Access) -> list[UnhealthyTask]:
    """Return the tasks here that do not move, of connectors that the requester may view."""
    found = metrics.stuck().items()
    return [UnhealthyTask.of(task, stuck) for task, stuck in found if access.may(Right.VIEW, task.connector)]


def _away(herder: Herder, most_s: float) -> Iterator[str]:
    away = herder.kafka_away_seconds()
    if away > most_s:
        yield f"No Kafka broker has answered for {away:.0f} s"


def _failed(metrics: WorkerMetrics, access: Access) -> Iterator[str]:
    found = metrics.failed()
    named = [name for connector, name in found if access.may(Right.VIEW, connector)][:_NAMED]
    more = [f"{len(found) - len(named)} more"] if len(found) > len(named) else []
    if found:
        yield f"FAILED here: {' and '.join([', '.join(named), *more] if named else more)}"
