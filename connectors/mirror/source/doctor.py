"""The findings of `headrace doctor --connector FILE` about a source connector: its clusters, topics and rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AclOperation

from headrace.config.problems import ConfigError
from headrace.connectors.mirror.clients import MirrorClients
from headrace.connectors.mirror.settings import SOURCE
from headrace.connectors.mirror.source.cluster import ClusterAdmin
from headrace.connectors.mirror.source.opposite_flow import OppositeFlow
from headrace.connectors.mirror.source.selection import TopicSelection
from headrace.plugins.contracts import Finding
from headrace.plugins.stopping import StopToken

_TIMEOUT_S: Final = 15.0
_SHOWN: Final = 5
_NEEDED: Final = (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)


def source_findings(config: Mapping[str, str]) -> Iterator[Finding]:
    """The findings for a valid config."""
    values, clients = SOURCE.parse(config), MirrorClients(config)
    selection, stopping = TopicSelection(config), StopToken()
    admins = {
        "source": clients.source_admin("replication-source-admin"),
        "target": clients.target_admin("replication-target-admin"),
    }
    source, target = (
        ClusterAdmin(values[f"{side}.cluster.alias"], admin, _TIMEOUT_S, stopping) for side, admin in admins.items()
    )
    found = {}
    for side, cluster in (("source", source), ("target", target)):
        try:
            found[side] = cluster.listed()
        except KafkaException as error:
            advice = f"see {side}.cluster.bootstrap.servers and the security settings beside it"
            yield Finding(f"{side} cluster {cluster.alias}", False, f"does not answer: {error.args[0].str()}", advice)
            continue
        name, brokers, topics = found[side]
        text = f"id {name}, {brokers} broker(s), {len(topics)} topic(s) to be seen"
        yield Finding(f"{side} cluster {cluster.alias}", True, text)
    if len(found) < len(admins):
        return
    try:
        yield from _topics(source, selection.chosen(found["source"][2]))
        yield from _target(target, found["target"][1], values["replication.factor"])
        if (refusal := OppositeFlow(config, selection).refusal(source, target)) is not None:
            yield Finding("loops", False, refusal.problems[0].message, refusal.problems[0].remedy)
    except (KafkaException, ConfigError) as error:
        yield Finding("clusters", False, str(error))


def _topics(source: ClusterAdmin, topics: Sequence[str]) -> Iterator[Finding]:
    if not topics:
        yield Finding("topics", False, "none passes the filter", "see topics and topics.exclude, and the rights")
        return
    yield Finding("topics", True, f"{len(topics)}: {_some(topics)}")
    allowed = source.allowed_on(topics)
    for operation in _NEEDED:
        if lacking := [topic for topic in topics if operation not in allowed.get(topic, {operation})]:
            advice = f"allow this connector's user {operation.name} on them at {source.alias}"
            yield Finding(f"right {operation.name}", False, f"missing for {len(lacking)}: {_some(lacking)}", advice)


def _target(target: ClusterAdmin, brokers: int, replication_factor: int) -> Iterator[Finding]:
    if replication_factor > brokers:
        text = f"{replication_factor} with {brokers} broker(s) at {target.alias}: topics cannot be created"
        yield Finding("replication.factor", False, text, f"set it to {brokers} at most, or to -1")
    if AclOperation.CREATE not in target.allowed():
        text = f"missing at {target.alias}: remote topics have to be there, or allowed by name"
        yield Finding("right CREATE", None, text, "allow this connector's user CREATE on the cluster")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
