"""`/metrics`: the metrics of the worker, or of the workers of its process, in Prometheus' text format."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from headrace.rest import documented

router = APIRouter(tags=["worker"], responses=documented.ERRORS)


async def _collector(request: Request) -> Collector:
    collector: Collector = request.app.state.metrics
    return collector


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"description": "Connect's metrics for Prometheus.", "content": {"text/plain": {}}}},
)
def metrics(metrics: Annotated[Collector, Depends(_collector)]) -> Response:
    return Response(generate_latest(metrics), media_type=CONTENT_TYPE_LATEST)
