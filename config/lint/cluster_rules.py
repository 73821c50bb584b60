"""Rules about a connector's Kafka cluster, and about other connectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.config.connector.settings import SINK
from headrace.config.kafka.topic_names import is_allowed
from headrace.config.lint.finding import Said, Severity, rule
from headrace.config.lint.view import ConnectorView, group_of, is_sink
from headrace.config.problems import ConfigError
from headrace.config.suggestions import nearest, question

_REPLICATION: Final = "errors.deadletterqueue.topic.replication.factor"


@rule("cluster-not-asked", Severity.NOTE, "The Kafka cluster did not answer, so that its rules were left out.")
def cluster_not_asked(view: ConnectorView) -> Iterator[Said]:
    """The reason that the cluster was not asked."""
    if view.around.not_asked:
        yield Said(None, f"The Kafka cluster was not asked: {view.around.not_asked}", "Look again once it answers.")


@rule("missing-topic", Severity.WARNING, "A sink that names a topic which is not there.")
def missing_topic(view: ConnectorView) -> Iterator[Said]:
    """Named topics that the cluster does not have."""
    if view.kind != "sink" or view.cluster is None:
        return
    for topic in view.items("topics"):
        if topic not in view.cluster.partitions and is_allowed(topic):
            meant = question(nearest(topic, view.cluster.partitions)).strip()
            yield Said("topics", f"There is no topic {topic}.", meant or "Create it, or mend its name.")


@rule("regex-matches-nothing", Severity.WARNING, "A sink whose regular expression matches no topic.")
def regex_matches_nothing(view: ConnectorView) -> Iterator[Said]:
    """A `topics.regex` that no topic of the cluster matches."""
    if view.kind != "sink" or view.cluster is None or not view.text("topics.regex"):
        return
    if not view.reads(view.cluster.partitions):
        advice = "It has to match the whole name of a topic, and is no pattern of a shell: write orders.* for orders*."
        yield Said("topics.regex", "It matches no topic of the cluster.", advice)


@rule("tasks-over-partitions", Severity.WARNING, "A sink with more tasks than its topics have partitions.")
def tasks_over_partitions(view: ConnectorView) -> Iterator[Said]:
    """Tasks of a sink that have nothing to do."""
    tasks = view.number("tasks.max")
    if view.kind != "sink" or view.cluster is None or tasks is None:
        return
    partitions = sum(view.cluster.partitions[topic] for topic in view.reads(view.cluster.partitions))
    if 0 < partitions < tasks:
        idle = tasks - partitions
        message = f"{idle} of {tasks} tasks have nothing to do: the topics have {partitions} partition(s)."
        yield Said("tasks.max", message, f"Set it to {partitions}, or add partitions.")


@rule("tasks-over-source", Severity.NOTE, "A source with more tasks than it can use.")
def tasks_over_source(view: ConnectorView) -> Iterator[Said]:
    """Tasks that a source does not make."""
    tasks = view.number("tasks.max")
    if view.kind != "source" or view.connector is None or tasks is None:
        return
    try:
        most = view.connector.most_tasks(view.plain)
    except ConfigError:  # validation refuses the config, or a setting that is needed has a variable
        most = None
    most = most or view.around.tasks
    if most and most < tasks:
        yield Said("tasks.max", f"The source makes {most} task(s) with this config.", f"Set it to {most}.")


@rule("replication-over-brokers", Severity.ERROR, "A topic to create with more replicas than there are brokers.")
def replication_over_brokers(view: ConnectorView) -> Iterator[Said]:
    """Replication factors of topics that the connector would create."""
    cluster = view.cluster
    if cluster is None:
        return
    wanted = {
        key: view.number(key)
        for key in view.config
        if view.kind == "source" and key.startswith("topic.creation.") and key.endswith(".replication.factor")
    }
    if any(topic not in cluster.partitions for topic in view.failed_records.values()):
        wanted[_REPLICATION] = view.number(_REPLICATION, SINK[_REPLICATION].default)
    for key, replicas in wanted.items():
        if replicas is not None and replicas > cluster.brokers:
            told = "" if key in view.config else ", its default,"
            message = f"{replicas} replicas{told} are more than the cluster's {cluster.brokers} broker(s)."
            yield Said(key, message, f"Set {key} to {cluster.brokers} or less.")


@rule("shared-group", Severity.ERROR, "Two sinks with one consumer group, which take records from each other.")
def shared_group(view: ConnectorView) -> Iterator[Said]:
    """Other sinks with the consumer group of this one."""
    if view.kind != "sink" or not view.group:
        return
    for name, config in view.around.others.items():
        if name != view.name and is_sink(config) and group_of(name, config) == view.group:
            key = "consumer.override.group.id" if "consumer.override.group.id" in view.config else "name"
            message = f"The connector {name} has the consumer group {view.group}, too: each gets a part of the records."
            yield Said(key, message, "Give each sink a group of its own.")
