"""Configurations of Kafka clients: merges Java's settings in Connect's layers.

    source_producer(worker, connector, 0).librdkafka(memory_bytes=32 << 20)  # for confluent_kafka.Producer
    sink_consumer(worker, connector, 0).spark()                              # {"kafka.bootstrap.servers": …}

Decided: source producers are idempotent with five requests in flight; Apache's are not and have one. Order and acks=all
are the same, it is several times faster, and a retry makes no duplicate. `producer.override.enable.idempotence=false`
(or `producer.enable.idempotence=false`) restores Apache's behaviour; loses: brokers before 2.8 require the
IdempotentWrite right.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Literal
from urllib.parse import urlsplit

from headrace.config.connector.config import sink_group
from headrace.config.connector.foreign_names import foreign_names
from headrace.config.connector.sink_members import instance_id
from headrace.config.kafka.client_config import SETTINGS, ClientConfig, class_loading
from headrace.config.kafka.client_settings import ADMIN, CONSUMER, PRODUCER
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Settings
from headrace.config.values import as_text
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.overrides import PREFIXES, overrides

__all__ = [
    "ClientConfig",
    "InternalTopic",
    "admin",
    "dead_letter_admin",
    "dead_letter_consumer",
    "dead_letter_producer",
    "group_member",
    "internal_admin",
    "internal_consumer",
    "internal_producer",
    "override_problems",
    "shared_admin",
    "sink_consumer",
    "source_producer",
]

log = logging.getLogger(__name__)

InternalTopic = Literal["configs", "offsets", "statuses", "history"]
"""The internal topics, as named in client ids."""

_MakeClient = Callable[[WorkerConfig, Mapping[str, str], int], ClientConfig]
_LONGEST: Final = "2147483647"
_OF_MEMBERS: Final = (
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
"""Worker properties for its membership in the cluster; readers of internal topics are in no group."""

_CONNECTION: Final = ("bootstrap.servers", "client.dns.lookup", "security.", "sasl.", "ssl.")
"""The beginnings of the settings that a producer and a consumer with the same brokers and login share."""

_OF_WORKERS: Final = ("config.providers",)
"""Worker properties that a client would refuse."""


def override_problems(
    kind: str, connector: Mapping[str, str | None], worker: WorkerConfig | None, opens_files: bool = True
) -> list[Problem]:
    """Problems of a connector's overrides for a kind of client: policy, values, class loading, names of others.

    `opens_files`: true if the overrides' files may be read.
    """
    given, prefix = overrides(kind, connector), PREFIXES[kind]
    settings = SETTINGS[kind]
    judged = {key: settings[key].judge(given).errors for key in given if key in settings}
    found = [Problem(key, settings.mask(given)[key], errors[0]) for key, errors in judged.items() if errors]
    found += [*class_loading(kind, given), *_one_for_many(given, connector)]
    if worker is not None:
        refused = _refused(kind, given, connector, worker)
        found += refused
        named = {problem.key for problem in found}
        if given and opens_files and not refused:
            found += [problem for problem in _together(kind, connector, worker) if problem.key not in named]
    return [replace(problem, key=prefix + problem.key) for problem in found]


def _refused(
    kind: str, given: Mapping[str, str], connector: Mapping[str, str | None], worker: WorkerConfig
) -> list[Problem]:
    """Problems of overrides that the worker's policy refuses, or that are names of others."""
    policy = worker.override_policy()
    objections = {key: policy.objection(key) for key in given}
    found = [Problem(key, SETTINGS[kind].mask(given)[key], text) for key, text in objections.items() if text]
    return found + foreign_names(given, connector.get("name") or "", worker.values)


def _overrides(kind: str, connector: Mapping[str, str], worker: WorkerConfig) -> dict[str, str]:
    """The connector's overrides for its clients of this kind.

    They are checked at each start, too: the config may be older than the rules, and it may have variables.
    Errors: ConfigError.
    """
    given = overrides(kind, connector)
    if problems := _refused(kind, given, connector, worker):
        raise ConfigError([replace(problem, key=PREFIXES[kind] + problem.key) for problem in problems])
    return given


def _one_for_many(given: Mapping[str, str], connector: Mapping[str, str | None]) -> list[Problem]:
    """The problem of one static member's name for several tasks, which would fence each other without end."""
    tasks = (connector.get("tasks.max") or "1").strip()
    is_sink = any(connector.get(key) for key in ("topics", "topics.regex"))
    if not is_sink or "group.instance.id" not in given or not tasks.isdecimal() or int(tasks) <= 1:
        return []
    why = f"The name serves one task only, and tasks.max is {tasks}: each task would be fenced by the next. Remove it."
    return [Problem("group.instance.id", given["group.instance.id"], why)]


def _together(kind: str, connector: Mapping[str, str | None], worker: WorkerConfig) -> list[Problem]:
    """Problems of the worker's settings and the overrides in combination, such as of a login."""
    config = {key: value for key, value in connector.items() if value is not None}
    made: Mapping[str, _MakeClient] = {"producer": source_producer, "consumer": sink_consumer, "admin": admin}
    try:
        made[kind](worker, config, 0)
    except ConfigError as e:
        return e.problems
    return []


def source_producer(
    worker: WorkerConfig, connector: Mapping[str, str], task: int, in_transactions: bool = False
) -> ClientConfig:
    """The producer of a source task; `in_transactions`: with Connect's `transactional.id` for the task."""
    name = f"{connector.get('name', '')}-{task}"
    transactional_id = f"{worker['group.id']}-{name}" if in_transactions else None
    return _producer(worker, connector, f"connector-producer-{name}", transactional_id)


def dead_letter_producer(worker: WorkerConfig, connector: Mapping[str, str], task: int) -> ClientConfig:
    """The producer of a sink task's dead letters."""
    return _producer(worker, connector, f"connector-dlq-producer-{connector.get('name', '')}-{task}", None)


def dead_letter_consumer(worker: WorkerConfig, connector: Mapping[str, str], group: str) -> ClientConfig:
    """The consumer that shows a connector's dead letters: with the brokers and the login of their producer."""
    written = dead_letter_producer(worker, connector, 0).java
    connection = {key: value for key, value in written.items() if key.startswith(_CONNECTION)}
    name = f"connector-dlq-consumer-{connector.get('name', '')}"
    own = {"client.id": name, "group.id": group, "enable.auto.commit": "false", "auto.offset.reset": "earliest"}
    return ClientConfig("consumer", {**connection, **own})


def _producer(
    worker: WorkerConfig, connector: Mapping[str, str], client_id: str, transactional_id: str | None
) -> ClientConfig:
    user = {**worker.with_prefix("producer."), **_overrides("producer", connector, worker)}
    base = {
        "bootstrap.servers": _bootstrap(worker),
        "max.block.ms": "9223372036854775807",
        "acks": "all",
        "delivery.timeout.ms": "2147483647",
        "client.id": client_id,
    }
    java = {**base, **user}
    if transactional_id is not None:
        java |= {"enable.idempotence": "true", "transactional.id": transactional_id}
    if "enable.idempotence" not in java:
        java["enable.idempotence"] = "true" if _may_be_idempotent(java) else "false"
    idempotent = java["enable.idempotence"].strip().lower() == "true"
    # Without idempotence a retried request may arrive after later ones, unless only one is in flight.
    java.setdefault("max.in.flight.requests.per.connection", "5" if idempotent else "1")
    return ClientConfig("producer", java)


def _may_be_idempotent(java: Mapping[str, str]) -> bool:
    flight = java.get("max.in.flight.requests.per.connection", "5").strip()
    return (
        java["acks"].strip() in ("all", "-1")
        and java.get("retries", "1").strip() != "0"
        and flight.isdigit()
        and int(flight) <= 5
    )


def sink_consumer(
    worker: WorkerConfig, connector: Mapping[str, str], task: int, owner: str | None = None
) -> ClientConfig:
    """The consumer of a sink task, a member of the connector's group.

    `owner`, as of `instance_id`, makes it a static member, unless the worker or the group's protocol is set otherwise.
    """
    name = connector.get("name", "")
    base = {
        "group.id": sink_group(name),
        "client.id": f"connector-consumer-{name}-{task}",
        "bootstrap.servers": _bootstrap(worker),
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
    }
    java = {**base, **worker.with_prefix("consumer."), **_overrides("consumer", connector, worker)}
    is_static = worker["sink.static.membership"] and java.get("group.protocol", "classic").strip().lower() == "classic"
    if owner is not None and is_static:
        java.setdefault("group.instance.id", instance_id(owner, name, task))
    return ClientConfig("consumer", java)


def admin(worker: WorkerConfig, connector: Mapping[str, str], task: int | None = None) -> ClientConfig:
    """The admin client of a connector, or of one of its tasks."""
    name = connector.get("name", "")
    client_id = f"connector-worker-adminclient-{name}" if task is None else f"connector-adminclient-{name}-{task}"
    return _admin(worker, client_id, _overrides("admin", connector, worker))


def dead_letter_admin(worker: WorkerConfig, connector: Mapping[str, str]) -> ClientConfig:
    """The admin client to create a dead letter topic."""
    name = f"connector-dlq-adminclient-{connector.get('name', '')}"
    return _admin(worker, name, _overrides("admin", connector, worker))


def shared_admin(worker: WorkerConfig) -> ClientConfig:
    """The worker's own admin client."""
    return _admin(worker, _internal_id(worker, "shared-admin"), {})


def internal_admin(worker: WorkerConfig) -> ClientConfig:
    """The admin client for the internal topics; `admin.*` is for connectors and does not apply."""
    return _internal("admin", worker, ADMIN, "shared-admin", {}, {})


def group_member(worker: WorkerConfig, url: str) -> ClientConfig:
    """The client of the worker at this URL for its cluster's group; `admin.*` does not apply."""
    kept = {key: value for key, value in worker.originals.items() if key in ADMIN and value}
    plain = {key: value for key, value in kept.items() if key not in _OF_WORKERS}
    # Connect's defaults, which kafka-python does not share; they decide how soon a broker's return is noticed.
    base = {"client.id": f"connect-{urlsplit(url).netloc}", "request.timeout.ms": "40000"}
    base |= {"retry.backoff.ms": "100", "reconnect.backoff.ms": "50", "reconnect.backoff.max.ms": "1000"}
    return ClientConfig("admin", {**base, **plain, "bootstrap.servers": _bootstrap(worker)})


def internal_consumer(worker: WorkerConfig, topic: InternalTopic) -> ClientConfig:
    """The consumer that reads an internal topic from its beginning, in no group and without commits."""
    fixed = {"enable.auto.commit": "false", "auto.offset.reset": "earliest", "allow.auto.create.topics": "false"}
    if topic != "statuses" and worker.exactly_once == "enabled":
        fixed["isolation.level"] = "read_committed"
        given = worker.originals.get("isolation.level")
        if given is not None and given != "read_committed":
            log.warning(
                "The value '%s' for the 'isolation.level' property will be ignored as it cannot be overridden for the "
                "%s topic consumer when exactly-once source support is enabled. The value 'read_committed' "
                "will be used instead.",
                given,
                "worker's config" if topic == "configs" else "worker offsets",
            )
    return _internal("consumer", worker, CONSUMER, topic, {}, fixed)


def internal_producer(worker: WorkerConfig, topic: InternalTopic) -> ClientConfig:
    """The producer of an internal topic: ordered, to all replicas; a status is sent once, others until they arrive."""
    fixed = {
        "acks": "all",
        "enable.idempotence": "false",
        "max.in.flight.requests.per.connection": "1",
        "partitioner.ignore.keys": "false",
    }
    fixed |= {"retries": "0"} if topic == "statuses" else {"delivery.timeout.ms": _LONGEST}
    return _internal("producer", worker, PRODUCER, topic, {"linger.ms": "0"}, fixed)


def leader_producer(worker: WorkerConfig) -> ClientConfig:
    """The leader's producer for the config topic if sources may be exactly-once; a new leader fences the former by it.

    Decided: its transactions last ten seconds at most unless the worker's properties differ, because a worker that
    starts waits for the transaction that a killed leader left open; loses: a config that takes longer to write is
    refused.
    """
    fixed = {
        "acks": "all",
        "enable.idempotence": "true",
        "max.in.flight.requests.per.connection": "5",
        "partitioner.ignore.keys": "false",
        "transactional.id": f"connect-cluster-{worker['group.id']}",
    }
    base = {"linger.ms": "0", "transaction.timeout.ms": "10000"}
    return _internal("producer", worker, PRODUCER, "configs-leader", base, fixed)


def _internal(
    kind: str,
    worker: WorkerConfig,
    settings: Settings,
    name: str,
    base: Mapping[str, str],
    fixed: Mapping[str, str],
) -> ClientConfig:
    left_out = (*_OF_MEMBERS, *_OF_WORKERS, "transactional.id")
    plain = {key: value for key, value in worker.originals.items() if key in settings and key not in left_out}
    own = {"bootstrap.servers": _bootstrap(worker), "client.id": _internal_id(worker, name)}
    return ClientConfig(kind, {**base, **plain, **own, **fixed})


def _internal_id(worker: WorkerConfig, name: str) -> str:
    group = worker.originals.get("group.id", "connect") if worker.is_distributed else "connect"
    middle = f"{worker.originals['client.id']}-" if worker.is_distributed and worker["client.id"] else ""
    return f"{group}-{middle}{name}"


def _admin(worker: WorkerConfig, client_id: str, own: Mapping[str, str]) -> ClientConfig:
    plain = {key: value for key, value in worker.originals.items() if key in ADMIN and key not in _OF_WORKERS}
    base = {**plain, "bootstrap.servers": _bootstrap(worker), "client.id": client_id}
    return ClientConfig("admin", {**base, **worker.with_prefix("admin."), **own})


def _bootstrap(worker: WorkerConfig) -> str:
    return as_text(worker["bootstrap.servers"]) or ""
