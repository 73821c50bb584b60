"""The REST API of one worker on its listeners; /admin has listeners of its own where `admin.listeners` names some."""

from __future__ import annotations

from headrace.config.listeners import Listener
from headrace.config.worker import WorkerConfig
from headrace.rest.app import admin_app, app
from headrace.rest.server import HttpServer
from headrace.worker.herder.api import Herder
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.rest_client import RestClient


class RestService:
    """Listens from its construction; requests that come before `start` wait for it."""

    def __init__(self, config: WorkerConfig) -> None:
        """Bind all listeners.

        Errors: ConfigError where one cannot be.
        """
        self._settings = config.values
        self._server = HttpServer(config.listeners())
        # Not set: /admin is with the rest. Empty: it is switched off.
        self._admin_server = HttpServer(config.admin_listeners() or [], "admin.listeners")

    @property
    def bound(self) -> list[Listener]:
        """The worker's listeners with the ports that they got."""
        return self._server.bound

    def start(self, herder: Herder, metrics: WorkerMetrics, client: RestClient | None) -> None:
        """Answer requests; `client` forwards those that another worker decides."""
        self._server.start(app(herder, metrics, self._settings, client))
        if self._admin_server.bound:
            self._admin_server.start(admin_app(herder, metrics, self._settings, client))

    def stop(self) -> None:
        """Answer no request any more; those under way have two seconds to end."""
        self._admin_server.stop()
        self._server.stop()
