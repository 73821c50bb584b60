"""`/metrics`: the worker's metrics in Prometheus' text format."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from headrace.rest import documented
from headrace.rest.requests import MetricsOf

router = APIRouter(tags=["worker"], responses=documented.ERRORS)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"description": "Connect's metrics for Prometheus.", "content": {"text/plain": {}}}},
)
def metrics(metrics: MetricsOf) -> Response:
    return Response(generate_latest(metrics), media_type=CONTENT_TYPE_LATEST)
