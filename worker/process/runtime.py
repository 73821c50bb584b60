"""The parts of a worker that exist before its herder, alike in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from apscheduler.schedulers.background import BackgroundScheduler

from headrace.config.listeners import Listener, advertised_url, worker_id
from headrace.config.worker import WorkerConfig
from headrace.plugins.discovery import Plugins
from headrace.plugins.stopping import StopToken
from headrace.worker.engine.driver import Spark
from headrace.worker.herder.api import Herder
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.kafka.cluster import KafkaCluster
from headrace.worker.machine import jars


class HerderServer(Protocol):
    """Serves a herder over HTTP; its listeners are bound from its construction."""

    @property
    def bound(self) -> list[Listener]:
        """The worker's listeners with the ports that they got."""

    def start(self, herder: Herder, metrics: WorkerMetrics, client: RestClient | None) -> None:
        """Answer requests; `client` forwards those that another worker decides, None where there is no other."""

    def stop(self) -> None:
        """Answer no request any more."""


Serve = Callable[[WorkerConfig], HerderServer]
"""Binds the listeners of a worker's settings. Errors: ConfigError where one cannot be bound."""


class Runtime:
    """A worker's settings, plugins, listeners, Spark and scheduler."""

    def __init__(self, config: WorkerConfig, stopping: StopToken, serve: Serve) -> None:
        """Spark starts in the background.

        Errors: ConfigError, jars.Unavailable.
        """
        self.config = config
        self.stopping = stopping
        self.cluster = KafkaCluster(config)
        self.plugins = Plugins.discover(config["plugin.path"])
        self.server = serve(config)
        self.spark = Spark(config.spark_conf(), jars.fetch("spark"), self.plugins.paths)
        self.spark.start()
        self.scheduler = BackgroundScheduler(timezone="UTC")
        advertised = config.advertised(self.server.bound)
        self.url = advertised_url(advertised)
        self.worker_id = worker_id(advertised)
