"""A server with a login over a herder that says what a test tells it to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.config.worker.config import WorkerConfig
from headrace.rest.app import admin_app, app
from headrace.rest.security.auth_layer import AuthLayer
from headrace.rest.security.principal import certificate_state
from headrace.rest.server import HttpServer
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.storage.signing import SessionKey
from headrace.worker.tasks.metrics import TasksMetrics
from tests.unit.rest.conftest import SETTINGS
from tests.unit.rest.scripted import FREE, scripted

KEY = SessionKey.generate()


class ShowsCertificate:
    """Has every connection show a certificate of this name, as a listener with TLS does."""

    def __init__(self, inner: ASGIApp, name: str) -> None:
        self._inner = inner
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {}).update(certificate_state(self._name))
        await self._inner(scope, receive, send)


@contextmanager
def entered(
    settings: Mapping[str, str],
    answers: Mapping[str, Any] | None = None,
    certificate: str | None = None,
    admin: bool = False,
    key: Callable[[], SessionKey | None] = lambda: KEY,
    environment: Mapping[str, str] | None = None,
    asks_for_certificates: bool = True,
) -> Iterator[tuple[httpx.Client, Any]]:
    """A client, and the herder behind the login that these properties ask for."""
    config = WorkerConfig.standalone({**SETTINGS, **settings})
    # The server here has no TLS: only the login is told of certificates.
    asks = {"ssl.client.auth": "requested"} if asks_for_certificates else {}
    auth_layer = AuthLayer.of(config.values, {**config.originals, **asks}, environment or {})
    herder = scripted({"connectors": ["c"], **(answers or {})})
    type(herder).session_key = property(lambda _: key())
    metrics = WorkerMetrics(herder, "here:8083", TasksMetrics(), StartupCounter())
    server = HttpServer([FREE])
    with RestClient(answer_seconds=5) as client:
        made = (admin_app if admin else app)(herder, metrics, config.values, client, auth_layer)
        server.start(made if certificate is None else ShowsCertificate(made, certificate))
        try:
            with httpx.Client(base_url=str(server.bound[0]), timeout=60) as http:
                yield http, herder
        finally:
            server.stop()
            auth_layer.stop()
