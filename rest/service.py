"""The REST API of one worker on its listeners; /admin and /metrics have their own, if these are set.

Decided: `start` imports the web framework, because the error of a listener that cannot be bound comes 0.4 s sooner
without it; loses: an import in a function.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.config.worker.allowed_hosts import ALLOWED_HOSTS
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.listeners import Listener
from headrace.config.worker.rest_tls import ADMIN_LISTENERS, LISTENERS, METRICS_LISTENERS, tls_settings
from headrace.rest.connections import ConnectionLimits
from headrace.rest.metrics_service import MetricsService
from headrace.rest.security.auth_layer import AuthLayer
from headrace.rest.server import HttpServer

if TYPE_CHECKING:
    from headrace.worker.herder.api import Herder
    from headrace.worker.herder.metrics import WorkerMetrics
    from headrace.worker.herder.rest_client import RestClient

log = logging.getLogger(__name__)


class RestService:
    """The REST service of a worker; listens once constructed, and requests before `start` wait for it."""

    def __init__(self, config: WorkerConfig) -> None:
        """Binds all listeners. Errors: ConfigError if one cannot be bound, or if the login cannot be set up."""
        self._settings = config.values
        self._entrance = AuthLayer.of(config.values, config.originals, os.environ)
        limits = ConnectionLimits(config["rest.max.connections"])
        tls, admin_tls = config.listeners_tls(), config.listeners_tls(ADMIN_LISTENERS)
        self._server = HttpServer(config.listeners(), limits=limits, tls=tls)
        # None: /admin is with the rest. Empty: it is switched off.
        admin_limits = ConnectionLimits(config["rest.max.connections"])
        self._admin_server = HttpServer(config.admin_listeners() or [], ADMIN_LISTENERS, admin_limits, admin_tls)
        metrics_tls = config.listeners_tls(METRICS_LISTENERS)
        self._metrics = MetricsService(config.metrics_listeners(), config.values, metrics_tls)
        self._open = list(_without_certificates(config, self._server.bound, self._admin_server.bound))

    @property
    def bound(self) -> list[Listener]:
        """The worker's listeners with their actual ports."""
        return self._server.bound

    def start(self, herder: Herder, metrics: WorkerMetrics, client: RestClient | None) -> None:
        """Answers requests; `client` forwards those that another worker decides."""
        from headrace.rest.app import admin_app, app

        self._warn_if_open()
        self._server.start(app(herder, metrics, self._settings, client, self._entrance))
        if self._admin_server.bound:
            self._admin_server.start(admin_app(herder, metrics, self._settings, client, self._entrance))
        self._metrics.start(metrics)

    def _warn_if_open(self) -> None:
        found = [one for one in self._open if one.is_on_all_interfaces]
        if found and not self._entrance.needs_login:
            encrypted = all(one.scheme == "https" for one in found)
            log.warning(
                "The REST API listens on all interfaces, without %s (%s): who reaches it can %s. Set "
                "rest.basic.auth.users.file, or listeners=http://127.0.0.1:8083 and put a proxy before it, or "
                "listeners=https://:8083 with ssl.client.auth=required; or see that only those can reach it who may do "
                "that",
                "login" if encrypted else "login and encryption",
                ", ".join(map(str, found)),
                ", ".join(_open_doors(self._settings)),
            )
        plain = [
            str(one)
            for one in (*self.bound, *self._admin_server.bound)
            if one.scheme == "http" and one.is_on_all_interfaces
        ]
        if plain and self._entrance.needs_login:
            log.warning(
                "The REST API takes logins without encryption (%s): who can read the network can read passwords and "
                "tokens. Set listeners=https://..., or put a proxy that ends TLS before listeners=http://127.0.0.1:8083",
                ", ".join(plain),
            )

    def stop(self) -> None:
        """Stops answering; requests in progress have two seconds to end."""
        self._metrics.stop()
        self._admin_server.stop()
        self._server.stop()
        self._entrance.stop()


def _without_certificates(
    config: WorkerConfig, bound: Iterable[Listener], admin_bound: Iterable[Listener]
) -> Iterator[Listener]:
    """The listeners that clients without a trusted certificate may use."""
    for setting, listeners in ((LISTENERS, bound), (ADMIN_LISTENERS, admin_bound)):
        asks = tls_settings(config.originals, setting).asks_for_certificates
        yield from (one for one in listeners if not (asks and one.scheme == "https"))


def _open_doors(settings: Mapping[str, Any]) -> Iterator[str]:
    """Actions that these settings allow to everybody who reaches the REST API."""
    yield "create, change and delete connectors with this worker's logins to Kafka"
    if not settings["rest.mask.secrets"]:
        yield "read the secrets in connectors' configs (rest.mask.secrets)"
    if not settings["file.allowed.paths"]:
        yield "read and write files as this user (file.allowed.paths)"
    if "*" in settings[ALLOWED_HOSTS]:
        yield "have it connect to every host that it reaches (connector.allowed.hosts)"
    if settings["admin.listeners"] is None:
        yield "change log levels and drain the worker (admin.listeners)"
