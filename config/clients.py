"""Kafka clients: Java's settings in layers as Connect lays them, translated once to each library's own.

    source_producer(worker, connector, 0).librdkafka(memory_bytes=32 << 20)  # for confluent_kafka.Producer
    sink_consumer(worker, connector, 0).spark()                              # {"kafka.bootstrap.servers": …}

Decided: source producers are idempotent with five requests in flight, where Apache's are not and have one. Order and
acks=all are the same, it is several times faster and a retry makes no duplicate. `producer.override.enable.idempotence`
(or `producer.enable.idempotence`) =false brings Apache's layer back; loses: brokers before 2.8 ask for the
IdempotentWrite right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.config.client_config import SETTINGS, ClientConfig, class_loading
from headrace.config.client_settings import ADMIN
from headrace.config.connector import sink_group
from headrace.config.overrides import PREFIXES, overrides
from headrace.config.problems import ConfigError, Problem
from headrace.config.values import as_text
from headrace.config.worker import WorkerConfig

__all__ = [
    "ClientConfig",
    "admin",
    "dead_letter_admin",
    "dead_letter_producer",
    "override_problems",
    "shared_admin",
    "sink_consumer",
    "source_producer",
]


def override_problems(kind: str, connector: Mapping[str, str | None], worker: WorkerConfig | None) -> list[Problem]:
    """What is wrong with a connector's overrides for a kind of client: the policy, unreadable values, class loading."""
    given, prefix = overrides(kind, connector), PREFIXES[kind]
    settings = SETTINGS[kind]
    judged = {key: settings[key].judge(given).errors for key in given if key in settings}
    found = [Problem(key, settings.mask(given)[key], errors[0]) for key, errors in judged.items() if errors]
    found += [*class_loading(kind, given)]
    if worker is not None:
        policy = worker.override_policy()
        objections = {key: policy.objection(key) for key in given}
        found += [Problem(key, settings.mask(given)[key], text) for key, text in objections.items() if text]
        named = {problem.key for problem in found}
        found += [problem for problem in _together(kind, connector, worker) if given and problem.key not in named]
    return [replace(problem, key=prefix + problem.key) for problem in found]


def _together(kind: str, connector: Mapping[str, str | None], worker: WorkerConfig) -> list[Problem]:
    """What the worker's settings and the overrides are refused for only once they are put together, such as a login."""
    config = {key: value for key, value in connector.items() if value is not None}
    make = {"producer": source_producer, "consumer": sink_consumer, "admin": admin}[kind]
    try:
        make(worker, config, 0)
    except ConfigError as e:
        return e.problems
    return []


def source_producer(
    worker: WorkerConfig, connector: Mapping[str, str], task: int, transactional_id: str | None = None
) -> ClientConfig:
    """The producer of a source task; with `transactional_id` one whose transactions are the delivery."""
    name = f"connector-producer-{connector.get('name', '')}-{task}"
    return _producer(worker, connector, name, transactional_id)


def dead_letter_producer(worker: WorkerConfig, connector: Mapping[str, str], task: int) -> ClientConfig:
    """The producer of a sink task's dead letters."""
    return _producer(worker, connector, f"connector-dlq-producer-{connector.get('name', '')}-{task}", None)


def _producer(
    worker: WorkerConfig, connector: Mapping[str, str], client_id: str, transactional_id: str | None
) -> ClientConfig:
    user = {**worker.with_prefix("producer."), **overrides("producer", connector)}
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
    # Without idempotence a retry may overtake what was sent after it, unless one request is in flight at a time.
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


def sink_consumer(worker: WorkerConfig, connector: Mapping[str, str], task: int) -> ClientConfig:
    """The consumer of a sink task, a member of the connector's group."""
    name = connector.get("name", "")
    base = {
        "group.id": sink_group(name),
        "client.id": f"connector-consumer-{name}-{task}",
        "bootstrap.servers": _bootstrap(worker),
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
    }
    return ClientConfig("consumer", {**base, **worker.with_prefix("consumer."), **overrides("consumer", connector)})


def admin(worker: WorkerConfig, connector: Mapping[str, str], task: int | None = None) -> ClientConfig:
    """The admin client of a connector, or of one of its tasks."""
    name = connector.get("name", "")
    client_id = f"connector-worker-adminclient-{name}" if task is None else f"connector-adminclient-{name}-{task}"
    return _admin(worker, client_id, overrides("admin", connector))


def dead_letter_admin(worker: WorkerConfig, connector: Mapping[str, str]) -> ClientConfig:
    """The admin client that creates a dead letter topic."""
    name = f"connector-dlq-adminclient-{connector.get('name', '')}"
    return _admin(worker, name, overrides("admin", connector))


def shared_admin(worker: WorkerConfig) -> ClientConfig:
    """The worker's own admin client."""
    group = worker.originals.get("group.id", "connect") if worker.is_distributed else "connect"
    middle = f"{worker.originals['client.id']}-" if worker.is_distributed and worker["client.id"] else ""
    return _admin(worker, f"{group}-{middle}shared-admin", {})


def _admin(worker: WorkerConfig, client_id: str, own: Mapping[str, str]) -> ClientConfig:
    plain = {key: value for key, value in worker.originals.items() if key in ADMIN}
    base = {**plain, "bootstrap.servers": _bootstrap(worker), "client.id": client_id}
    return ClientConfig("admin", {**base, **worker.with_prefix("admin."), **own})


def _bootstrap(worker: WorkerConfig) -> str:
    return as_text(worker["bootstrap.servers"]) or ""
