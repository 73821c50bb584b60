"""The HTTP API of a MirrorMaker process: `/health`, `/metrics`, and requests between processes of a flow.

As Apache's, it has no other part of the REST API: the connectors' configs come from the processes' files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import Response
from starlette.types import ASGIApp

from headrace.config.worker.listeners import Listener
from headrace.config.worker.mirror_maker import MirrorMakerConfig
from headrace.rest.app import assembled
from headrace.rest.connections import ConnectionLimits
from headrace.rest.http import documented
from headrace.rest.http.bodies import FlowsHealth, WorkerHealth, json_answer
from headrace.rest.http.requests import SignedRequest, speaks_json, task_configs_of
from headrace.rest.metrics_service import MetricsService
from headrace.rest.routes import metrics as metrics_routes
from headrace.rest.routes.worker import HEALTH_STATUS, unhealthy_tasks
from headrace.rest.security.access import NEEDS_NOTHING, AccessOf
from headrace.rest.security.auth_layer import OPEN, AuthLayer
from headrace.rest.server import HttpServer
from headrace.worker.herder.api import Herder
from headrace.worker.herder.flows import Flows
from headrace.worker.herder.rest_client import RestClient

_WORST_FIRST: Final = ("unhealthy", "starting", "healthy")


async def _flows(request: Request) -> Flows:
    flows: Flows = request.app.state.flows
    return flows


FlowsOf = Annotated[Flows, Depends(_flows)]
"""The flows of the process."""


async def _herder(source: str, target: str, flows: FlowsOf) -> Herder:
    return flows.herder(source, target)


HerderOfFlow = Annotated[Herder, Depends(_herder)]
"""The herder of the path's flow."""

_health = APIRouter(tags=["worker"], responses=documented.ERRORS, dependencies=[Depends(speaks_json)])
_internal = APIRouter(
    prefix="/{source:segment}/{target:segment}/connectors/{name:segment}",
    tags=["internal"],
    dependencies=[Depends(speaks_json)],
)


@_health.get("/health", dependencies=[NEEDS_NOTHING])
def health(flows: FlowsOf, access: AccessOf) -> Response:
    metrics = flows.metrics()
    found = {
        flow: WorkerHealth(
            status=one.status,
            message=one.message,
            unhealthy_tasks=unhealthy_tasks(metrics[flow], access),
        )
        for flow, one in flows.health().items()
    }
    status = next(status for status in _WORST_FIRST if status in {"healthy", *(one.status for one in found.values())})
    message = "; ".join(f"{flow}: {one.message}" for flow, one in found.items() if one.status == status)
    return json_answer(FlowsHealth(status=status, message=message, flows=found), HEALTH_STATUS[status])


@_internal.post("/tasks", dependencies=[NEEDS_NOTHING], status_code=204)
def put_task_configs(name: str, request: SignedRequest, herder: HerderOfFlow) -> Response:
    herder.put_task_configs(name, task_configs_of(request), request)
    return Response(status_code=204)


@_internal.put("/fence", dependencies=[NEEDS_NOTHING], status_code=204)
def fence_zombies(name: str, request: SignedRequest, herder: HerderOfFlow) -> Response:
    herder.fence_zombies(name, request)
    return Response(status_code=204)


def app(flows: Flows, settings: Mapping[str, Any], client: RestClient | None, auth_layer: AuthLayer = OPEN) -> ASGIApp:
    """The API of a process; with `client`, which forwards requests, it answers other processes, too."""
    api = FastAPI(title="Headrace: a MirrorMaker process", openapi_url=None, redirect_slashes=False)
    api.state.flows = api.state.metrics = flows
    routers = [_health, metrics_routes.router, *([_internal] if client is not None else []), *auth_layer.added.routers]
    return assembled(api, routers, settings, client, auth_layer)


class MirrorService:
    """The HTTP service of a process; it listens once constructed."""

    def __init__(self, config: MirrorMakerConfig) -> None:
        """Binds all listeners. Errors: ConfigError if one cannot be bound."""
        self._settings = config.values
        self._entrance = AuthLayer.of(config.values, config.originals, os.environ)
        limits = ConnectionLimits(config["rest.max.connections"])
        self._server = HttpServer(config.listeners(), limits=limits, tls=config.listeners_tls())
        self._metrics = MetricsService(config.metrics_listeners(), config.values, config.metrics_tls())

    @property
    def bound(self) -> list[Listener]:
        """The listeners with their actual ports."""
        return self._server.bound

    def start(self, flows: Flows, client: RestClient | None) -> None:
        """Answers requests where it listens; with `client`, those of other processes, too."""
        if self.bound:
            self._server.start(app(flows, self._settings, client, self._entrance))
        self._metrics.start(flows)

    def stop(self) -> None:
        """Stops answering; requests in progress have two seconds to end."""
        self._metrics.stop()
        self._server.stop()
        self._entrance.stop()
