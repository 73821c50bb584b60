"""`/metrics`: metrics of the worker, or of all workers of a MirrorMaker process, in Prometheus' text format."""

from __future__ import annotations

from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from headrace.config.worker.rights import Right
from headrace.rest.http import documented
from headrace.rest.security.access import Of, needs
from headrace.worker.herder.exposition import CONTENT_TYPE

router = APIRouter(tags=["worker"], responses=documented.ERRORS)


class Metrics(Protocol):
    """The source of metrics: a worker's, or the flows of a process."""

    def metrics_text(self) -> str:
        """All metrics in Prometheus' text format."""


async def _metrics(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


@router.get(
    "/metrics",
    dependencies=[needs(Right.VIEW, Of.ALL)],
    response_class=Response,
    responses={200: {"description": "Connect's metrics for Prometheus.", "content": {"text/plain": {}}}},
)
def metrics(metrics: Annotated[Metrics, Depends(_metrics)]) -> Response:
    return Response(metrics.metrics_text(), media_type=CONTENT_TYPE)
