"""Replicator's config as the mirror's, and what of it is refused.

    src.kafka.<key>        source.cluster.<key>, or source.consumer.<key> and source.admin.<key>
    src.consumer.<key>     source.consumer.<key>
    dest.kafka.<key>       target.cluster.<key>, or target.admin.<key>
    topic.*                topics, refresh.topics.*, sync.topic.configs.*, replication.factor

All other keys stay, so that converters, transforms and `producer.override.*` are the worker's, as ever. Monitoring
interceptors, licences and settings of ZooKeeper are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from headrace.config.kafka.client_config import SETTINGS as CLIENTS
from headrace.config.problems import ConfigError, Problem
from headrace.connectors.mirror.clients import OF_CLUSTER
from headrace.connectors.mirror.policy import POLICY, policy_of
from headrace.connectors.mirror.replicator.policy import NAME
from headrace.connectors.mirror.replicator.settings import SETTINGS
from headrace.connectors.mirror.source import validation
from headrace.connectors.mirror.source.opposite_flow import TOPICS as OPPOSITE

SOURCE: Final = "source"
TARGET: Final = "destination"
"""The names of the clusters in logs and metrics."""

_FIXED: Final = {
    "source.cluster.alias": SOURCE,
    "target.cluster.alias": TARGET,
    POLICY: NAME,
    "sync.topic.acls.enabled": "false",
    "heartbeats.replication.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    "source.consumer.isolation.level": "read_committed",
}
_NEVER: Final = ("__consumer_offsets", "__transaction_state", "__consumer_timestamps")
_LEFT_OUT: Final = re.compile(
    r"interceptor\.classes$|confluent\.monitoring|^src\.kafka\.timestamps\.|^metric\.reporters$"
)
_BYTES: Final = "ByteArrayConverter"


class MirrorConfig(NamedTuple):
    """The mirror's config, and Replicator's key of each translated setting."""

    config: dict[str, str]
    origin: Mapping[str, str]

    def named(self, problems: list[Problem]) -> list[Problem]:
        """Return these problems by Replicator's keys."""
        return [replace(one, key=self.origin.get(one.key, one.key)) for one in problems]


def mirror_config(config: Mapping[str, str]) -> MirrorConfig:
    """Return the mirror's config. Errors: ConfigError for wrong values of single settings."""
    values, clients = SETTINGS.parse(config), _clients(config)
    topics = [*map(re.escape, values["topic.whitelist"]), *([values["topic.regex"]] if values["topic.regex"] else [])]
    factor = str(values["dest.topic.replication.factor"] or -1)
    chosen = {
        ("topics", "topic.regex"): ",".join(topics),
        ("topics.exclude", "topic.blacklist"): ",".join(map(re.escape, values["topic.blacklist"])),
        ("refresh.topics.interval.seconds", "topic.poll.interval.ms"): _seconds(values["topic.poll.interval.ms"]),
        ("sync.topic.configs.enabled", "topic.config.sync"): str(values["topic.config.sync"]).lower(),
        ("sync.topic.configs.interval.seconds", "topic.config.sync.interval.ms"): _seconds(
            values["topic.config.sync.interval.ms"]
        ),
        ("replication.factor", "dest.topic.replication.factor"): factor,
        ("source.consumer.group.id", "src.consumer.group.id"): values["src.consumer.group.id"]
        or config.get("name", ""),
    }
    made = {**config, **_FIXED, **{key: value for (key, _), value in chosen.items()}}
    made |= {key: config[name] for key, name in clients.items()}
    if values["provenance.header.enable"]:
        made.setdefault(OPPOSITE, "")  # provenance keeps records from going round
    return MirrorConfig(made, {**dict(chosen.keys()), **clients})


def problems_of(config: Mapping[str, str]) -> list[Problem]:
    """Return the problems of the settings together; no cluster is asked."""
    try:
        values, mirror = SETTINGS.parse(config), mirror_config(config)
    except ConfigError as error:
        return error.problems
    problems = list(_refused(values))
    try:
        policy_of(mirror.config)
    except ConfigError as error:
        return problems + error.problems
    return problems + mirror.named(validation.source_problems(mirror.config))


def _refused(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is not served."""
    if not values["topic.whitelist"] and not values["topic.regex"]:
        yield Problem("topic.whitelist", None, "No topic is chosen.", "Set topic.whitelist or topic.regex.")
    if internal := [name for name in values["topic.whitelist"] if name in _NEVER]:
        why, remedy = f"Kafka's internal topics are never replicated: {', '.join(internal)}.", "Leave them out."
        yield Problem("topic.whitelist", ",".join(values["topic.whitelist"]), why, remedy)
    if "," in (values["topic.regex"] or ""):
        remedy = "Write a{1}|aa in place of a{1,2}."
        yield Problem("topic.regex", values["topic.regex"], "An expression with a comma is not served.", remedy)
    if not values["topic.preserve.partitions"]:
        remedy = "Leave it out; a record keeps its partition."
        yield Problem("topic.preserve.partitions", "false", "Only true is served.", remedy)
    for side in ("key", "value", "header"):
        name = f"src.{side}.converter"
        if values[name].rpartition(".")[2] != _BYTES:
            remedy = f"Leave it out, and change records by transforms, or by {side}.converter."
            yield Problem(name, values[name], f"Only the {_BYTES} is served: records are read as bytes.", remedy)
    if overrides := values["provenance.header.filter.overrides"]:
        remedy = "Leave it out: only records that come from the copy's own cluster and topic are left out."
        yield Problem("provenance.header.filter.overrides", overrides, "Overrides are not served.", remedy)
    for name in ("schema.registry.topic", "schema.registry.url", "schema.subject.translator.class"):
        if values[name]:
            remedy = "Leave it out, and replicate the registry's own topic by topic.whitelist, or use its exporters."
            yield Problem(name, values[name], "Schemas are not migrated between registries.", remedy)


def _clients(config: Mapping[str, str]) -> dict[str, str]:
    """Return the mirror's keys of the clients' settings, and Replicator's of each."""
    found: dict[str, str] = {}
    for prefix, cluster, kinds in (
        ("src.kafka.", "source", ("consumer", "admin")),
        ("dest.kafka.", "target", ("admin",)),
        ("src.consumer.", "source", ("consumer",)),
    ):
        for name in config:
            key = name.removeprefix(prefix)
            if not name.startswith(prefix) or _LEFT_OUT.search(key) or _LEFT_OUT.search(name) or key == "group.id":
                continue
            if key in OF_CLUSTER and prefix != "src.consumer.":
                found[f"{cluster}.cluster.{key}"] = name
            else:
                found |= {f"{cluster}.{kind}.{key}": name for kind in kinds if key in CLIENTS[kind]}
    return found


def _seconds(milliseconds: int) -> str:
    return str(max(1, milliseconds // 1000))
