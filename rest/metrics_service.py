"""`metrics.listeners`: /metrics alone, without a login, for a worker and for a MirrorMaker process.

Decided: no login and no rights there, because Prometheus asks each worker by its address, and a password in every
scrape config is seldom kept secret; loses: who reaches the port reads the names of connectors and topics.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.config.tls import RenewedContext
from headrace.config.worker.audit import AUDIT
from headrace.config.worker.listeners import Listener
from headrace.config.worker.rest_tls import METRICS_LISTENERS
from headrace.config.worker.rights import RIGHTS_FILE
from headrace.rest.connections import ConnectionLimits
from headrace.rest.server import HttpServer

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headrace.rest.routes.metrics import Metrics

log = logging.getLogger(__name__)

_NOT_HERE: Final = (RIGHTS_FILE, AUDIT)
"""Settings of the REST API that have no effect on these listeners."""


class MetricsService:
    """Serves `metrics.listeners`; it listens once constructed."""

    def __init__(self, listeners: Sequence[Listener], settings: Mapping[str, Any], tls: RenewedContext | None) -> None:
        """Binds all listeners; `settings` are the worker's, parsed. Errors: ConfigError if one cannot be bound."""
        self._settings = settings
        limits = ConnectionLimits(settings["rest.max.connections"])
        self._server = HttpServer(listeners, METRICS_LISTENERS, limits, tls)

    @property
    def bound(self) -> list[Listener]:
        """The listeners with their actual ports."""
        return self._server.bound

    def start(self, metrics: Metrics) -> None:
        """Answers requests, if there are listeners."""
        if self.bound:
            self._server.start(metrics_app(metrics, self._settings))
            log.info("Metrics alone answer at %s", ", ".join(f"{listener}/metrics" for listener in self.bound))

    def stop(self) -> None:
        """Stops answering; requests in progress have two seconds to end."""
        self._server.stop()


def metrics_app(metrics: Metrics, settings: Mapping[str, Any]) -> ASGIApp:
    """The API on `metrics.listeners`; `settings` are the worker's, parsed."""
    from fastapi import FastAPI

    from headrace.rest.app import assembled
    from headrace.rest.routes import metrics as routes

    api = FastAPI(title="Headrace: metrics", openapi_url=None, redirect_slashes=False)
    api.state.metrics = metrics
    here = {key: value for key, value in settings.items() if key not in _NOT_HERE}
    return assembled(api, (routes.router,), here, None)
