"""The REST API in front of a herder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from headrace.config.worker_settings import header_rules
from headrace.rest import connectors, errors, plugins, worker
from headrace.rest.layers import AccessLog, AddedHeaders, RawPaths
from headrace.worker.herder import Herder

_ROUTERS = (worker.router, connectors.router, plugins.router)


def app(herder: Herder, settings: Mapping[str, Any]) -> ASGIApp:
    """Answers for this herder; `settings` are the worker's, parsed.

    Handlers are plain functions: they run in a pool of threads, and those that wait for the herder hold up no other.
    """
    api = FastAPI(openapi_url=None, redirect_slashes=False)
    api.state.herder = herder
    api.state.routes = [route for router in _ROUTERS for route in router.routes]
    for router in _ROUTERS:
        api.include_router(router)
    errors.install(api)
    around: ASGIApp = RawPaths(api)
    if origin := settings.get("access.control.allow.origin"):
        around = CORSMiddleware(
            around,
            allow_origins=_split(origin),
            allow_methods=_split(settings.get("access.control.allow.methods") or "GET,POST,HEAD"),
            allow_headers=["X-Requested-With", "Content-Type", "Accept", "Origin"],
            allow_credentials=True,
        )
    if rules := header_rules(settings.get("response.http.headers.config") or ""):
        around = AddedHeaders(around, rules)
    return AccessLog(around)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
