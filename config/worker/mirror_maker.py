"""MirrorMaker's file: clusters by alias, and the flows between them, each with its worker and its three connectors.

    clusters = A, B
    A.bootstrap.servers = a1:9092          # under A.: how to reach A, and settings of the workers that write to A
    B.bootstrap.servers = b1:9092
    A->B.enabled = true                    # under A->B.: settings of this flow's connectors
    topics = orders.*                      # without prefix: settings of the connectors of every flow

A flow's worker belongs to a cluster whose topics and group are in the flow's target. Keys are translated exactly as by
Apache's MirrorMakerConfig (4.3.1): nodes of one group, Java's too, compare their connectors' configs. Variables stay;
the workers that start connectors and tasks resolve them (Invariant 6).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any, Final

from headrace.config.kafka.client_settings import SASL, SSL
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.tls import RenewedContext
from headrace.config.validators import ListOf
from headrace.config.values import read
from headrace.config.variables import NO_VARIABLES, Variables
from headrace.config.worker import audit, rights
from headrace.config.worker.audit import AUDIT, AUDIT_FILE
from headrace.config.worker.listeners import Listener, advertised, parse_listeners
from headrace.config.worker.login_settings import LOGIN
from headrace.config.worker.rest_tls import (
    LISTENERS,
    METRICS_LISTENERS,
    https_prefix,
    listener_problems,
    listeners_tls,
    workers_tls,
)
from headrace.config.worker.rights import RIGHTS_FILE
from headrace.config.worker.settings import DISTRIBUTED
from headrace.config.worker.trusted import TRUSTED

log = logging.getLogger(__name__)

_PACKAGE: Final = "org.apache.kafka.connect.mirror."
CONNECTORS: Final = ("MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector")
"""The names of a flow's connectors, in the order of their configuration by the leader."""
CONNECTOR_CLASSES: Final = {name: _PACKAGE + name for name in CONNECTORS}
"""The connectors' classes by name."""

INTERNAL_REST: Final = "dedicated.mode.enable.internal.rest"
_HEARTBEATS: Final = "emit.heartbeats.enabled"

SETTINGS: Final = Settings(
    Setting(
        "clusters",
        Type.LIST,
        validator=ListOf(empty=False),
        importance=Importance.HIGH,
        documentation="The aliases of the clusters, such as A, B.",
    ),
    Setting(
        INTERNAL_REST,
        Type.BOOLEAN,
        False,
        None,
        Importance.HIGH,
        "Whether nodes listen for one another, which several nodes need so that all of them can change tasks.",
    ),
    *(
        DISTRIBUTED[name]
        for name in (
            "config.providers",
            "plugin.path",
            "plugin.discovery",
            "listeners",
            "rest.advertised.host.name",
            "rest.advertised.port",
            "rest.advertised.listener",
            "ssl.client.auth",
            "response.http.headers.config",
            "rest.extension.classes",
            *(one.name for one in LOGIN),
            "rest.allowed.hosts",
            "rest.max.request.bytes",
            "rest.max.connections",
            METRICS_LISTENERS,
            RIGHTS_FILE,
            AUDIT,
            AUDIT_FILE,
        )
    ),
)
"""The settings of the process; all others are for connectors, workers and Kafka's clients."""

_OF_CLIENTS: Final = ("bootstrap.servers", "security.protocol", *(one.name for one in (*SSL, *SASL)))
"""Keys that every client of a cluster takes from `<alias>.<key>`, or for all clusters from `<key>`."""
_CLIENTS: Final = ("producer", "consumer", "admin")
_OF_WORKERS: Final = (
    *("offset.storage", "config.storage", "status.storage", "key.converter", "value.converter", "header.converter"),
    *("task", "worker", "replication.policy"),
)
"""Beginnings of the keys for every flow's worker."""
_OF_CONNECTORS: Final = ("config.providers", "replication.policy")
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclass(frozen=True)
class Flow:
    """Replication from one cluster to another."""

    source: str
    target: str
    worker: Mapping[str, str] = field(repr=False)
    """The worker's properties, with their variables."""
    connectors: Mapping[str, Mapping[str, str]] = field(repr=False)
    """The connectors' configs by name, with their variables."""

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    def of_worker(self, problem: Problem, given: Collection[str]) -> Problem:
        """The problem of a worker's property, under the key that the file has or should have."""
        plain = f"{self.target}.{problem.key}" not in given and problem.key in given
        return problem if plain else replace(problem, key=f"{self.target}.{problem.key}")

    def of_connector(self, problem: Problem, given: Collection[str]) -> Problem:
        """The problem of a connector's setting, under the key that the file has or should have."""
        names = [f"{self}.{problem.key}", problem.key, *self._of_cluster(problem.key)]
        return replace(problem, key=next((name for name in names if name in given), names[-1 if names[2:] else 0]))

    def _of_cluster(self, key: str) -> list[str]:
        """The file's possible keys for a connector's `source.cluster.<key>`, `source.consumer.<key>` and so on."""
        for side, alias in (("source", self.source), ("target", self.target)):
            for kind in ("cluster", *_CLIENTS):
                plain = key.removeprefix(f"{side}.{kind}.")
                if plain != key and plain != "alias":
                    return [f"{alias}.{kind}.{plain}", f"{alias}.{plain}", plain, f"{alias}.{plain}"]
        return []


@dataclass(frozen=True)
class MirrorMakerConfig:
    """The content of a file: the settings of the process, and the flows to run."""

    values: Mapping[str, Any] = field(repr=False)
    originals: Mapping[str, str] = field(repr=False)
    """The properties, variables resolved."""
    flows: tuple[Flow, ...]

    @classmethod
    def of(
        cls,
        props: Mapping[str, str],
        connector_keys: Collection[str],
        targets: Sequence[str] = (),
        variables: Variables = NO_VARIABLES,
    ) -> MirrorMakerConfig:
        """The configuration of a process.

        `connector_keys`: the names of all settings of the three connectors; `targets`: the clusters to write to, all if
        empty.

        Errors: ConfigError with all problems.
        """
        resolved = variables.resolve(props)
        problems = SETTINGS.problems(resolved)
        if problems:
            raise ConfigError(problems, "MirrorMaker's configuration")
        values = SETTINGS.parse(resolved)
        aliases = list(dict.fromkeys(values["clusters"]))
        given = {key: values[key] for key in (LISTENERS, METRICS_LISTENERS)}
        problems = [*_unknown_targets(targets, aliases), *listener_problems(resolved, given)]
        problems += [*rights.problems(values), *audit.problems(values)]
        flows = flows_of(props, resolved, aliases, connector_keys, problems, targets)
        if problems:
            raise ConfigError(problems, "MirrorMaker's configuration")
        for key in unheeded(props, aliases, connector_keys):
            log.warning(
                "The configuration '%s' is not used: it is a setting neither of MirrorMaker's process nor of its "
                "connectors, and begins with no cluster or flow of `clusters`",
                key,
            )
        return cls(values, resolved, flows)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def internal_rest(self) -> bool:
        """True if other nodes can reach this one."""
        enabled: bool = self[INTERNAL_REST]
        return enabled

    def listeners(self) -> list[Listener]:
        """The listeners of the process; empty unless the file asks for them."""
        return parse_listeners(self["listeners"]) if self.internal_rest or "listeners" in self.originals else []

    def listeners_tls(self) -> RenewedContext | None:
        """The TLS context of the listeners; None if none is https. Errors: ConfigError."""
        return listeners_tls(self.originals, self.listeners())

    def metrics_listeners(self) -> list[Listener]:
        """The listeners of /metrics alone."""
        return parse_listeners(self[METRICS_LISTENERS], METRICS_LISTENERS)

    def metrics_tls(self) -> RenewedContext | None:
        """The TLS context of `metrics.listeners`; None if none is https. Errors: ConfigError."""
        return listeners_tls(self.originals, self.metrics_listeners(), METRICS_LISTENERS)

    def workers_tls(self) -> RenewedContext:
        """The TLS context for calls to other processes. Errors: ConfigError."""
        return workers_tls(self.originals)

    def advertised(self, bound: list[Listener]) -> Listener:
        """The process's URL for others; `bound`: its listeners with their actual ports."""
        names = ("rest.advertised.listener", "rest.advertised.host.name", "rest.advertised.port")
        return advertised(bound, *(self[name] for name in names))

    def spark_conf(self) -> dict[str, str]:
        """The `spark.*` properties by full name."""
        return {key: value for key, value in self.originals.items() if key.startswith("spark.")}


def flows_of(
    props: Mapping[str, str],
    resolved: Mapping[str, str],
    aliases: Sequence[str],
    connector_keys: Collection[str],
    problems: list[Problem],
    targets: Sequence[str] = (),
) -> tuple[Flow, ...]:
    """The flows of a file; `resolved`: its properties with variables resolved. Adds to `problems`."""
    pairs = [pair for pair in _pairs(resolved, aliases, problems) if pair[1] in (targets or aliases)]
    problems += _without_servers(resolved, dict.fromkeys(alias for pair in pairs for alias in pair))
    if not pairs and not problems:
        problems.append(_no_flow(resolved["clusters"], targets))
    return tuple(
        Flow(source, target, _worker(props, source, target), _connectors(props, connector_keys, source, target))
        for source, target in pairs
    )


def plugin_path(props: Mapping[str, str]) -> list[str]:
    """The folders with plugins for the process or, as in Apache's files, for its workers. Errors: ConfigError."""
    try:
        aliases = read("clusters", Type.LIST, props.get("clusters", ""))
        keys = ("plugin.path", *(f"{alias}.plugin.path" for alias in aliases))
        return list(dict.fromkeys(path for key in keys for path in read(key, Type.LIST, props.get(key, ""))))
    except ValueError as error:
        raise ConfigError(Problem("plugin.path", None, str(error))) from error


# Settings of a flow's worker and connectors.


def _cluster(props: Mapping[str, str], alias: str) -> dict[str, str]:
    """The settings under a cluster's alias; clients' settings are repeated for each kind of client."""
    own = _under(props, f"{alias}.")
    made = {f"{client}.{key}": own[key] for key in _OF_CLIENTS if key in own for client in _CLIENTS} | own
    everywhere = {key: props[key] for key in _OF_CLIENTS if key in props}
    return everywhere | {f"{client}.{key}": v for key, v in everywhere.items() for client in _CLIENTS} | made


def _worker(props: Mapping[str, str], source: str, target: str) -> dict[str, str]:
    defaults = {
        "client.id": f"{source}->{target}",
        "group.id": f"{source}-mm2",
        # The separator of the replication policy does not reach these names, in Apache's either.
        "offset.storage.topic": f"mm2-offsets.{source}.internal",
        "status.storage.topic": f"mm2-status.{source}.internal",
        "config.storage.topic": f"mm2-configs.{source}.internal",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "header.converter": _BYTES,
        TRUSTED: "*",  # all connectors come from the operator's file
    }
    return defaults | _cluster(props, target) | _beginning(props, *_OF_WORKERS, "config.providers")


def _connectors(
    props: Mapping[str, str], connector_keys: Collection[str], source: str, target: str
) -> dict[str, dict[str, str]]:
    shared = {key: value for key, value in props.items() if key in connector_keys}
    shared |= _beginning(props, *_OF_CONNECTORS)
    shared |= _of_side("source", _cluster(props, source)) | _of_side("target", _cluster(props, target))
    aliases = {"source.cluster.alias": source, "target.cluster.alias": target}
    own = _under(props, f"{source}->{target}.")
    return {
        name: {"enabled": "false"} | aliases | {"name": name, "connector.class": CONNECTOR_CLASSES[name]} | shared | own
        for name in CONNECTORS
    }


def _of_side(side: str, cluster: Mapping[str, str]) -> dict[str, str]:
    """A cluster's settings for connectors: `source.consumer.<key>` for clients, else `source.cluster.<key>`."""
    return {
        f"{side}.{key}" if key.startswith(_CLIENTS) else f"{side}.cluster.{key}": value
        for key, value in cluster.items()
    }


def _under(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix) and key != prefix}


def _beginning(props: Mapping[str, str], *prefixes: str) -> dict[str, str]:
    return {key: value for key, value in props.items() if key.startswith(prefixes)}


# The flows and their problems.


def _pairs(props: Mapping[str, str], aliases: Sequence[str], problems: list[Problem]) -> Iterator[tuple[str, str]]:
    """Source and target of each flow that is enabled or emits heartbeats, as it does by default.

    Both directions count: heartbeats that the flow from B to A emits into A monitor the flow from A to B.
    """
    heartbeats = _flag(props, _HEARTBEATS, True, problems)
    for source, target in permutations(aliases, 2):
        flow = f"{source}->{target}."
        enabled = _flag(props, f"{flow}enabled", False, problems)
        if _flag(props, flow + _HEARTBEATS, heartbeats, problems) or enabled:
            yield source, target


def _flag(props: Mapping[str, str], key: str, default: bool, problems: list[Problem]) -> bool:
    if key not in props:
        return default
    try:
        return bool(read(key, Type.BOOLEAN, props[key]))
    except ValueError as error:
        problems.append(Problem(key, props[key], str(error), "Set it to true or false."))
        return default


def _unknown_targets(targets: Sequence[str], aliases: Sequence[str]) -> list[Problem]:
    remedy = f"The clusters are {', '.join(aliases)}; add it to clusters in the file, or leave it out."
    return [
        Problem("--clusters", alias, "The setting clusters has no such alias.", remedy)
        for alias in targets
        if alias not in aliases
    ]


def _without_servers(props: Mapping[str, str], aliases: Collection[str]) -> list[Problem]:
    return [
        Problem(
            f"{alias}.bootstrap.servers",
            None,
            "The cluster cannot be reached without it.",
            f"Set it to host:port of brokers of {alias}, such as {alias}1.example:9092.",
        )
        for alias in aliases
        if not (props.get(f"{alias}.bootstrap.servers") or props.get("bootstrap.servers", "")).strip()
    ]


def _no_flow(clusters: str, targets: Sequence[str]) -> Problem:
    remedy = "Name at least two clusters, and set A->B.enabled=true for a flow from cluster A to cluster B."
    if targets:
        remedy += f" No flow of this file writes to {', '.join(targets)}, which --clusters names."
    return Problem("clusters", clusters, "No source->target replication flows.", remedy)


def unheeded(props: Mapping[str, str], aliases: Sequence[str], connector_keys: Collection[str]) -> list[str]:
    """The keys that are for neither the process, nor a cluster, a flow or its connectors."""
    known = {*(one.name for one in SETTINGS), *connector_keys, *_OF_CLIENTS}
    prefixes = (
        *(f"{alias}." for alias in aliases),
        *(f"{source}->{target}." for source, target in permutations(aliases, 2)),
        *_OF_WORKERS,
        *_OF_CONNECTORS,
        https_prefix(LISTENERS),
        https_prefix(METRICS_LISTENERS),
        "spark.",
    )
    return [key for key in props if key not in known and not key.startswith(prefixes)]
