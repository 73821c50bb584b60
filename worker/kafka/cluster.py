"""Waits for the Kafka cluster at `bootstrap.servers`; a worker never starts one.

An empty broker must not replace one that is briefly away; only `headrace quickstart` starts a broker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from confluent_kafka import KafkaException

from headrace.config.connector import clients
from headrace.config.lint.view import ClusterFacts
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.interop.kafka.admin_clients import admin_client, kept_client
from headrace.plugins.interop.kafka.certificates import with_reason
from headrace.plugins.interop.kafka.cluster_facts import cluster_facts
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

_SAY_EVERY_S = 10.0
_PROBE_S = 3.0
_PROBES_S = 60.0
"""A failed probe this long after the last failed one begins a new outage."""
_LOOPBACK = ("localhost:", "127.", "[::1]:")


class KafkaCluster:
    """The Kafka cluster at a worker's `bootstrap.servers`."""

    def __init__(self, config: WorkerConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._away_since = self._away_at = float("-inf")
        self.id: str | None = None
        """None until a broker has answered."""

    def wait(self, stop: StopToken) -> bool:
        """Wait until a broker answers; returns False if the worker stops first."""
        self.id = wait_for_cluster(self._config, stop)
        return self.id is not None

    def facts(self) -> ClusterFacts:
        """Ask for brokers, topics and their partitions. Errors: RetriableError."""
        return cluster_facts(clients.shared_admin(self._config).librdkafka())

    def away_seconds(self, timeout_s: float = _PROBE_S) -> float:
        """Probe the brokers: 0 if one answers, else the seconds since the first failed probe."""
        admin = admin_client(clients.shared_admin(self._config).librdkafka())
        try:
            admin.describe_cluster(request_timeout=timeout_s).result(timeout_s + 1)
        except (KafkaException, TimeoutError):
            now = self._clock()
            if now - self._away_at > _PROBES_S:  # what happened in between is unknown
                self._away_since = now
            self._away_at = now
            return now - self._away_since
        self._away_at = float("-inf")
        return 0.0


def wait_for_cluster(config: WorkerConfig, stop: StopToken) -> str | None:
    """Wait until a broker answers; returns the cluster's id, or None if the worker stops first."""
    servers = config["bootstrap.servers"]
    client = clients.shared_admin(config)
    settings = client.librdkafka()
    admin, failures = kept_client(settings)
    failures.forget(admin)
    said = 0.0
    while not stop.is_set():
        try:
            found: str | None = admin.list_topics(timeout=1.0).cluster_id
            if found:
                return found
        except KafkaException as error:
            if time.monotonic() - said >= _SAY_EVERY_S:
                said = time.monotonic()
                why = with_reason(failures.why(admin, client.login), failures.certificate, settings)
                if why is not None:
                    log.warning("Kafka at %s cannot be used yet, waiting: %s", ",".join(servers), why)
                    failures.forget(admin)
                    continue
                hint = ""
                if all(server.startswith(_LOOPBACK) for server in servers):
                    hint = "; `headrace kafka start` would start one here"
                log.warning(
                    "No Kafka broker answers at %s yet (%s): waiting%s", ",".join(servers), error.args[0].str(), hint
                )
    return None
