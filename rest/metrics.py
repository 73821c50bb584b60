"""`/metrics`: the worker's metrics in Prometheus' text format."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from headrace.rest import documented
from headrace.rest.requests import HerderOf
from headrace.worker.errors import NotFound

router = APIRouter(tags=["worker"], responses=documented.ERRORS)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"description": "Connect's metrics for Prometheus.", "content": {"text/plain": {}}}},
)
def metrics(herder: HerderOf) -> Response:
    if herder.metrics is None:
        raise NotFound("This worker keeps no metrics.")
    return Response(generate_latest(herder.metrics), media_type=CONTENT_TYPE_LATEST)
