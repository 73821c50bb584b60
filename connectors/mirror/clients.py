"""The Kafka clients of a mirror connector or task, for both clusters.

    clients = MirrorClients(config)
    clients.source_consumer("replication-consumer").librdkafka(memory_bytes=8 << 20)
    admin_client(clients.target_admin("replication-target-admin"))

Settings come in MirrorMaker's layers, a later one winning: `source.cluster.<key>` (the servers and security alone),
`consumer.<key>`, `source.consumer.<key>`; likewise for `target`, `producer` and `admin`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from headrace.config.kafka.client_config import SETTINGS, ClientConfig, reset_age_ms
from headrace.config.kafka.client_settings import SASL, SSL
from headrace.config.problems import ConfigError, Problem
from headrace.connectors.mirror.settings import TASK_INDEX
from headrace.plugins.interop.kafka import admin_clients
from headrace.plugins.interop.kafka.certificates import with_reason
from headrace.plugins.interop.kafka.group_offsets import GroupOffsets, kept_client
from headrace.plugins.stopping import StopToken

OF_CLUSTER: Final = frozenset(
    ("bootstrap.servers", "security.protocol", *(one.name for one in SSL), *(one.name for one in SASL))
)
"""The keys that `source.cluster.` and `target.cluster.` may have."""

_CHECK_EVERY_S: Final = 0.25

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class MirrorClients:
    """Makes the clients' configurations from the config of a mirror connector, or of one of its tasks.

    Errors of all its methods: ConfigError, with the connector's keys.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)
        flow = f"{config.get('source.cluster.alias', '')}->{config.get('target.cluster.alias', 'target')}"
        task = f"-{config[TASK_INDEX]}" if TASK_INDEX in config else ""
        self.label = f"{flow}|{config.get('name', '')}{task}"
        """The name of the connector or task, which begins its clients' ids."""

    def source_admin(self, role: str) -> ClientConfig:
        """The admin client of the source cluster for this role, which ends its `client.id`."""
        return self._client("source", "admin", role)

    def source_consumer(self, role: str) -> ClientConfig:
        """The consumer of the source cluster, to be used with `assign`: it joins no group and commits nothing.

        Its `poll` may answer with GROUP_AUTHORIZATION_FAILED, which means nothing for its reads.
        """
        return self._client("source", "consumer", role)

    def source_producer(self, role: str) -> ClientConfig:
        """The producer to the source cluster."""
        return self._client("source", "producer", role)

    def target_admin(self, role: str) -> ClientConfig:
        """The admin client of the target cluster."""
        return self._client("target", "admin", role)

    def target_consumer(self, role: str) -> ClientConfig:
        """The consumer of the target cluster; as `source_consumer`."""
        return self._client("target", "consumer", role)

    def target_producer(self, role: str) -> ClientConfig:
        """The producer to the target cluster."""
        return self._client("target", "producer", role)

    def problems(self, *clients: tuple[str, str]) -> list[Problem]:
        """The problems of these clients' settings: (`source` or `target`, kind) each."""
        found: dict[tuple[str, str], Problem] = {}
        for cluster, kind in clients:
            try:
                self._client(cluster, kind, "validation")
            except ConfigError as e:
                found |= {(problem.key, problem.message): problem for problem in e.problems}
        return list(found.values())

    def _client(self, cluster: str, kind: str, role: str) -> ClientConfig:
        java, origin = self._layered(cluster, kind)
        if not java.get("bootstrap.servers", "").strip():
            key = f"{cluster}.cluster.bootstrap.servers"
            message = f'Missing required configuration "{key}" which has no default value.'
            raise ConfigError(Problem(key, None, message, f"Set it to host:port of brokers of the {cluster} cluster."))
        own = java.get("client.id")
        java["client.id"] = f"{own}|{self.label}|{role}" if own else f"{self.label}|{role}"
        if kind == "consumer":
            java["enable.auto.commit"] = "false"
            # A topic that its owner deletes must not come again, with one partition, because a mirror asks for it.
            java["allow.auto.create.topics"] = "false"
            java.setdefault("auto.offset.reset", "earliest")
            # librdkafka's consumer wants one and asks for its coordinator, and uses neither.
            java.setdefault("group.id", self.label)
            if reset_age_ms(java["auto.offset.reset"]) is not None:
                key, value = origin["auto.offset.reset"], java["auto.offset.reset"]
                message = f"{value} is not served by a mirror."
                raise ConfigError(Problem(key, value, message, "Set it to earliest, latest or none."))
        try:
            return ClientConfig(kind, java)
        except ConfigError as e:
            named = [replace(one, key=origin.get(one.key, f"{cluster}.cluster.{one.key}")) for one in e.problems]
            raise ConfigError(named, f"The {kind} of the {cluster} cluster") from e

    def _layered(self, cluster: str, kind: str) -> tuple[dict[str, str], dict[str, str]]:
        """The client's settings by Java's names, and the connector's key of each."""
        java, origin = {}, {}
        for prefix in (f"{cluster}.cluster.", f"{kind}.", f"{cluster}.{kind}."):
            for name, value in self._config.items():
                key = name.removeprefix(prefix)
                taken = OF_CLUSTER if prefix.endswith("cluster.") else SETTINGS[kind]
                if name.startswith(prefix) and key in taken:
                    java[key], origin[key] = value, name
        return java, origin


def admin_client(client: ClientConfig) -> AdminClient:
    """The admin client of this configuration; its `client.id` is that of the first caller."""
    return admin_clients.admin_client(client.librdkafka())


def group_offsets(client: ClientConfig) -> GroupOffsets:
    """The client of this configuration that asks for the offsets of groups; `explained` covers its errors, too."""
    config = client.librdkafka()
    return kept_client(config, admin_clients.kept_client(config).failures)


def explained(client: ClientConfig, error: KafkaException) -> KafkaException:
    """The error of this configuration's clients; if its login or TLS is refused, with that as the reason."""
    config = client.librdkafka()
    admin, failures = admin_clients.kept_client(config)
    why = with_reason(failures.why(admin, client.login), failures.certificate, config)
    failures.forget(admin)
    return error if why is None else KafkaException(KafkaError(error.args[0].code(), why))


class Pending(Protocol[T_co]):
    """The pending answer to a request."""

    def result(self, timeout: float, /) -> T_co:
        """Waits for the answer, `timeout` seconds at most. Errors: TimeoutError; KafkaException."""


def answered(future: Pending[T], stopping: StopToken) -> T:
    """Wait for the answer to an admin client's request, which itself has a time limit.

    Errors: StoppedError once the end is asked for; KafkaException.
    """
    while True:
        try:
            return future.result(_CHECK_EVERY_S)
        except TimeoutError:
            stopping.raise_if_set("waiting for a Kafka cluster")
