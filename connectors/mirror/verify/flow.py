"""The verified flow from A to B: the access to both clusters, and the replicated topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from headrace.config.properties import read_properties
from headrace.config.values import Type, read
from headrace.config.variables import NO_VARIABLES, Variables
from headrace.config.worker.mirror_maker import MirrorMakerConfig
from headrace.connectors.mirror.clients import MirrorClients
from headrace.connectors.mirror.filters import config_property_filter, group_filter
from headrace.connectors.mirror.policy import ReplicationPolicy
from headrace.connectors.mirror.settings import CHECKPOINT, HEARTBEAT, SOURCE
from headrace.connectors.mirror.source.selection import TopicSelection
from headrace.connectors.mirror.verify.cluster import ClusterReader
from headrace.connectors.mirror.verify.groups import GroupRules
from headrace.connectors.mirror.verify.request import UsageError
from headrace.plugins.interop.discovery import Plugins

_KEYS: Final = frozenset(one.name for settings in (SOURCE, CHECKPOINT, HEARTBEAT) for one in settings)


class VerifiedFlow:
    """A flow, described by the config of its connectors. Errors: ConfigError; UsageError."""

    def __init__(self, source: str, target: str, config: Mapping[str, str]) -> None:
        self.source, self.target = source, target
        self.config = {**config, "source.cluster.alias": source, "target.cluster.alias": target, "name": "verify"}
        self._selection = TopicSelection(self.config)
        self.policy: ReplicationPolicy = self._selection.policy
        self.properties = config_property_filter(self.config)
        self.groups = GroupRules(
            group_filter(self.config),
            self._flag("sync.group.offsets.enabled", False),
            self._flag("emit.checkpoints.enabled", True),
        )

    @classmethod
    def of(
        cls, source: str, target: str, file: Path | None, servers: Mapping[str, str | None], settings: Sequence[str]
    ) -> VerifiedFlow:
        """The flow in MirrorMaker's file, or of the options alone; options win."""
        config = {} if file is None else _of_file(file, source, target)
        for side, given in servers.items():
            if given is not None:
                config = {key: value for key, value in config.items() if not _names_servers(key, side)}
                config[f"{side}.cluster.bootstrap.servers"] = given
        for setting in settings:
            key, found, value = setting.partition("=")
            if not found:
                raise UsageError(f"--set {setting}: write KEY=VALUE")
            config[key.strip()] = value.strip()
        for side, alias in (("source", source), ("target", target)):
            if not any(_names_servers(key, side) for key in config):
                raise UsageError(
                    f"cluster {alias} is not known: give --properties FILE or --{side}-bootstrap HOST:PORT"
                )
        return cls(source, target, config)

    def clusters(self, timeout_s: float) -> tuple[ClusterReader, ClusterReader]:
        """Both clusters; nothing is asked of them yet."""
        clients = MirrorClients(self.config)
        source = ClusterReader(
            self.source, clients.source_admin("verify"), clients.source_consumer("verify"), timeout_s
        )
        target = ClusterReader(
            self.target, clients.target_admin("verify"), clients.target_consumer("verify"), timeout_s
        )
        return source, target

    @cached_property
    def from_earliest(self) -> bool:
        """True if a partition that is new to the replication is copied from its first record on."""
        return bool(MirrorClients(self.config).source_consumer("verify")["auto.offset.reset"] == "earliest")

    def replicates(self, topic: str) -> bool:
        """True if the topic of the source is copied. Heartbeats are, but tell nothing of the data."""
        return self._selection.replicates(topic) and not self.policy.is_heartbeats_topic(topic)

    def copy_of(self, topic: str) -> str:
        """The topic's name at the target."""
        return self._selection.remote(topic)

    def _flag(self, key: str, default: bool) -> bool:
        return bool(read(key, Type.BOOLEAN, self.config.get(key, str(default).lower())))


def _names_servers(key: str, side: str) -> bool:
    clients = ("cluster", "consumer", "admin", "producer")
    return key in [f"{side}.{client}.bootstrap.servers" for client in clients]


def _of_file(file: Path, source: str, target: str) -> dict[str, str]:
    props = read_properties(file)
    variables = _variables(props)
    parsed = MirrorMakerConfig.of(props, _KEYS, variables=variables)
    for flow in parsed.flows:
        if (flow.source, flow.target) == (source, target):
            resolved: dict[str, str] = variables.resolve(flow.connectors["MirrorSourceConnector"])
            return resolved
    known = ", ".join(map(str, parsed.flows))
    raise UsageError(f"{file} has no flow {source}->{target}; it has {known}")


def _variables(props: Mapping[str, str]) -> Variables:
    if not props.get("config.providers", "").strip():
        return NO_VARIABLES
    found = Plugins.discover()
    return Variables.of(props, lambda name: found.find("config_provider", name).load(), lambda secrets: None)
