"""Assembles the REST API of a herder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from headrace.config.worker.login_settings import PRINCIPAL_SECRET
from headrace.config.worker.settings import BODY_BOUND, CONSOLE, KAFKA_AWAY, header_rules
from headrace.rest import forwarding
from headrace.rest.console import connectors as console_connectors
from headrace.rest.console import pages as console_pages
from headrace.rest.http import errors
from headrace.rest.http.guard import Guard, own_hosts
from headrace.rest.http.layers import AccessLog, AddedHeaders, RawPaths
from headrace.rest.http.masking import Masking
from headrace.rest.http.request_bodies import BoundedBodies
from headrace.rest.routes import (
    admin,
    connectors,
    dead_letters,
    documents,
    history,
    lint,
    logs,
    plugins,
    previews,
    series,
    worker,
)
from headrace.rest.routes import metrics as metrics_routes
from headrace.rest.security.access import ADMIN_UNLESS_DECLARED
from headrace.rest.security.audit import AuditLayer, AuditLog
from headrace.rest.security.auth_layer import OPEN, AuthLayer
from headrace.rest.security.forwarded import FindKey, bound, is_from_worker
from headrace.rest.security.login import LoginLayer, is_internal
from headrace.rest.security.requested import NAMES_REQUESTER
from headrace.rest.security.rights import rights_of
from headrace.worker.herder.api import Herder
from headrace.worker.herder.metrics import WorkerMetrics

if TYPE_CHECKING:
    from headrace.worker.herder.rest_client import RestClient

ROUTERS: Final = (
    worker.router,
    connectors.router,
    history.router,
    dead_letters.router,
    logs.router,
    series.router,
    plugins.router,
    lint.router,
    previews.router,
    metrics_routes.router,
    documents.router,
)
_CONSOLE: Final = (console_pages.router, console_connectors.router)


def app(
    herder: Herder,
    metrics: WorkerMetrics,
    settings: Mapping[str, Any],
    client: RestClient | None = None,
    auth_layer: AuthLayer = OPEN,
) -> ASGIApp:
    """The API of this herder; `settings` are the worker's, parsed.

    `client` forwards requests that another worker decides; a standalone worker needs none. /admin is included unless
    `admin.listeners` is set, which gives it its own listeners or, if empty, switches it off.
    """
    shared = settings.get("admin.listeners") is None
    console = _CONSOLE if settings.get(CONSOLE.name, CONSOLE.default) else ()
    routers = (*ROUTERS, *([admin.router] if shared else []), *console, *auth_layer.added.routers)
    return _app(herder, metrics, settings, routers, client, auth_layer)


def admin_app(
    herder: Herder,
    metrics: WorkerMetrics,
    settings: Mapping[str, Any],
    client: RestClient | None = None,
    auth_layer: AuthLayer = OPEN,
) -> ASGIApp:
    """The API on `admin.listeners`: /admin, /metrics and the OpenAPI document."""
    return _app(herder, metrics, settings, (admin.router, metrics_routes.router, documents.router), client, auth_layer)


def _app(
    herder: Herder,
    metrics: WorkerMetrics,
    settings: Mapping[str, Any],
    routers: Sequence[APIRouter],
    client: RestClient | None,
    auth_layer: AuthLayer,
) -> ASGIApp:
    # Handlers are plain functions, run in a thread pool: one that waits for the herder blocks no other.
    api = FastAPI(
        title="Headrace: the REST API of Kafka Connect",
        version=metrics.version,
        openapi_url=None,
        redirect_slashes=False,
    )
    api.state.herder = herder
    api.state.metrics = metrics
    api.state.kafka_away_s = settings.get(KAFKA_AWAY.name, KAFKA_AWAY.default) / 1000
    api.state.internal_topics = {
        what: topic for what in ("config", "offset", "status") if (topic := settings.get(f"{what}.storage.topic"))
    }
    api.state.masking = Masking(herder, bool(settings.get("rest.mask.secrets")))
    return assembled(api, routers, settings, client, auth_layer, lambda: herder.session_key)


def assembled(
    api: FastAPI,
    routers: Sequence[APIRouter],
    settings: Mapping[str, Any],
    client: RestClient | None,
    auth_layer: AuthLayer = OPEN,
    find_key: FindKey = lambda: None,
) -> ASGIApp:
    """The API with these routes, Connect's errors, and the layers for these settings; `client` forwards.

    `find_key`: returns the key that the workers of the cluster share.
    """
    api.state.find_key = of_principals = bound(find_key, settings.get(PRINCIPAL_SECRET))
    api.state.rights = rights_of(settings)
    api.state.routes = [route for router in routers for route in router.routes]
    for router in routers:
        api.include_router(router, dependencies=[ADMIN_UNLESS_DECLARED, NAMES_REQUESTER])
    errors.install(api)
    api.state.client = client
    if client is not None:
        forwarding.install(api, client)
    audit = AuditLog.of(settings)
    endpoints: ASGIApp = RawPaths(api)
    # The console's calls are audited as any client's.
    api.state.endpoints = endpoints if audit is None else AuditLayer(endpoints, audit)
    around: ASGIApp = BoundedBodies(
        endpoints,
        settings.get(BODY_BOUND.name, BODY_BOUND.default),
        all_bodies=auth_layer.bodies,
        is_known=lambda scope: not is_internal(scope) or is_from_worker(scope, find_key),
    )
    if auth_layer.authenticators is not None:
        around = LoginLayer(around, auth_layer.authenticators, of_principals)
    for layer in auth_layer.added.layers:
        around = layer(around)
    origins = _split(settings.get("access.control.allow.origin") or "")
    if origins:
        around = CORSMiddleware(
            around,
            allow_origins=origins,
            allow_methods=_split(settings.get("access.control.allow.methods") or "GET,POST,HEAD"),
            allow_headers=["X-Requested-With", "Content-Type", "Accept", "Origin"],
            allow_credentials=True,
        )
    around = Guard(around, own_hosts(settings), origins)
    if audit is not None:
        around = AuditLayer(around, audit)
    if rules := header_rules(settings.get("response.http.headers.config") or ""):
        around = AddedHeaders(around, rules)
    return AccessLog(around, settings.get("rest.access.log", "all"))


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
