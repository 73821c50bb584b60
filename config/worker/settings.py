"""Every setting of a worker, in Connect's order; `config.py` has checks of their combinations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from headrace import CONNECT_VERSION
from headrace.config.kafka.client_settings import ADMIN, SASL, SSL
from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.config.validators import (
    Check,
    ListOf,
    OneOf,
    OneOfIgnoringCase,
    OrNull,
    PositiveOrBrokers,
    Range,
    Validator,
)
from headrace.config.values import invalid, read, shown
from headrace.config.worker.allowed_hosts import ALLOWED_HOSTS, hosts_problem
from headrace.config.worker.audit import AUDIT, AUDIT_FILE
from headrace.config.worker.history import HISTORY
from headrace.config.worker.java_host import JAVA_HOST
from headrace.config.worker.login_settings import LOGIN, PRINCIPAL_SECRET
from headrace.config.worker.metrics_output import METRICS_OUTPUT
from headrace.config.worker.rights import RIGHTS_FILE
from headrace.config.worker.trusted import TRUSTED

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

ALGORITHMS: Final = ("HmacMD5", "HmacSHA1", "HmacSHA224", "HmacSHA256", "HmacSHA384", "HmacSHA512")
"""MAC algorithms for requests between workers, by their Java names."""

_HEADER_ACTIONS: Final = ("set", "add", "setDate", "addDate")


def _listeners(name: str, value: Any) -> str | None:
    example = "ex: http://localhost:8080,https://localhost:8443."
    if not value:
        return f"Invalid value for listeners, at least one URL is expected, {example}"
    return "Empty URL found when parsing listeners list." if "" in value else None


def _version(name: str, value: Any) -> str | None:
    if re.fullmatch(r"\d+(\.\d+)+[\w.+-]*", value, re.ASCII):
        return None
    return invalid(name, value, f"it is no version; write one such as {CONNECT_VERSION}")


def header_rules(text: str) -> list[str]:
    """The rules of `response.http.headers.config`: split at commas outside double quotes; quotes are removed."""
    rules: list[str] = []
    current, quoted = "", False
    for char in text:
        if char == '"':
            quoted = not quoted
        elif char == "," and not quoted:
            rules, current = [*rules, current], ""
        else:
            current += char
    return [rule.strip() for rule in [*rules, current]] if text.strip() else []


def _headers(name: str, value: Any) -> str | None:
    for rule in header_rules(value):
        action, _, pair = rule.partition(" ")
        header, colon, text = pair.partition(":")
        if not pair:
            return f"Invalid format of header config '{rule}'. Expected: '[action] [header name]:[header value]'"
        if action not in _HEADER_ACTIONS:
            return f"Invalid header config action: '{action}'. Expected one of [{', '.join(_HEADER_ACTIONS)}]"
        if not colon:
            expected = "Expected: '[header name]:[header value]'"
            return f"Invalid format of header name and header value pair '{pair}'. {expected}"
        if not header.strip() or len(header.split()) != 1:
            return f"Invalid header name '{header}'. The '[header name]' cannot contain whitespace"
        if action.endswith("Date"):
            try:
                read(name, Type.LONG, text)
            except ValueError:
                return f"Invalid header value '{text.strip()}'. {action} expects milliseconds from now, an integer"
    return None


def _algorithm(name: str, value: Any) -> str | None:
    known = {algorithm.lower() for algorithm in ALGORITHMS}
    if value is not None and value.lower() in known:
        return None
    supported = f"the supported algorithms are: {shown(list(ALGORITHMS))}"
    return invalid(name, value, f"the algorithm is not supported by this worker; {supported}")


def _algorithms(name: str, value: Any) -> str | None:
    if not value:
        return invalid(name, value or [], "At least one signature verification algorithm must be provided")
    return None if any(_algorithm(name, one) is None for one in value) else _algorithm(name, value[0])


def _protocol(name: str, value: Any) -> str | None:
    if value is not None and value.lower() in ("eager", "compatible", "sessioned"):
        return None
    return invalid(name, value, "Invalid Connect protocol compatibility")


def _not_empty(name: str, value: Any) -> str | None:
    return invalid(name, value, "String must be non-empty") if value is not None and not value.value else None


def _set(
    name: str, type_: Type, default: Any, importance: Importance, text: str, validator: Validator | None = None
) -> Setting:
    return Setting(name, type_, default, validator, importance, text)


def _of(settings: Settings, changes: Mapping[str, Any], *names: str) -> Settings:
    """Client settings for the worker, some with another default."""
    return Settings(*(replace(settings[name], default=changes.get(name, settings[name].default)) for name in names))


_CONVERTERS: Final = (
    _set("key.converter", Type.CLASS, REQUIRED, _HIGH, "Converts record keys where a connector names no converter."),
    _set("key.converter.plugin.version", Type.STRING, None, _LOW, "Version of the key converter to load."),
    _set("value.converter", Type.CLASS, REQUIRED, _HIGH, "Converts record values where a connector names none."),
    _set("value.converter.plugin.version", Type.STRING, None, _LOW, "Version of the value converter to load."),
)

_COMMON: Final = Settings(
    _set(
        "bootstrap.servers",
        Type.LIST,
        REQUIRED,
        _HIGH,
        "host:port of brokers to begin with, such as localhost:9092.",
        ListOf(empty=False),
    ),
    ADMIN["client.dns.lookup"],
    *_CONVERTERS,
    _set("task.shutdown.graceful.timeout.ms", Type.LONG, 5000, _LOW, "How long all tasks together may take to stop."),
    _set("offset.flush.interval.ms", Type.LONG, 60_000, _LOW, "How often source and sink offsets are committed."),
    _set("offset.flush.timeout.ms", Type.LONG, 5000, _LOW, "How long storing source offsets may take."),
    _set(
        "plugin.path",
        Type.LIST,
        None,
        _LOW,
        "Folders with plugins: jars, wheels, zips, environments, Python files.",
        ListOf(null=True),
    ),
    _set(
        "plugin.discovery",
        Type.STRING,
        "hybrid_warn",
        _LOW,
        "How Java plugins are found: by their manifests, by reading their classes, or both.",
        OneOfIgnoringCase("only_scan", "service_load", "hybrid_warn", "hybrid_fail"),
    ),
    ADMIN["metrics.sample.window.ms"],
    ADMIN["metrics.num.samples"],
    replace(ADMIN["metrics.recording.level"], validator=OneOf("INFO", "DEBUG")),
    ADMIN["metric.reporters"],
    _set(
        "header.converter",
        Type.CLASS,
        "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        _LOW,
        "Converts record headers where a connector names none.",
    ),
    _set("header.converter.plugin.version", Type.STRING, None, _LOW, "Version of the header converter to load."),
    _set("config.providers", Type.LIST, [], _LOW, "Names of the providers that resolve ${...}.", ListOf()),
    _set(
        "connector.client.config.override.policy",
        Type.STRING,
        "All",
        _MEDIUM,
        "Which Kafka client settings a connector may override: All, None, Principal or Allowlist.",
    ),
    _set(
        "connector.client.config.override.allowlist",
        Type.LIST,
        [],
        _MEDIUM,
        "What the Allowlist policy lets connectors override.",
        ListOf(),
    ),
    _set("topic.creation.enable", Type.BOOLEAN, True, _LOW, "Whether connectors may create topics for their records."),
    *SSL,
    _set("topic.tracking.enable", Type.BOOLEAN, True, _LOW, "Whether the topics that connectors use are recorded."),
    _set("topic.tracking.allow.reset", Type.BOOLEAN, True, _LOW, "Whether that record may be reset over REST."),
)

_REST: Final = Settings(
    _set(
        "listeners",
        Type.LIST,
        ["http://:8083"],
        _LOW,
        "Where the REST API listens; no host means all interfaces.",
        Check(_listeners, "a comma-separated list of URLs such as http://127.0.0.1:8083"),
    ),
    _set("rest.advertised.host.name", Type.STRING, None, _LOW, "The host by which others reach this worker."),
    _set("rest.advertised.port", Type.INT, None, _LOW, "The port by which others reach this worker."),
    _set("rest.advertised.listener", Type.STRING, None, _LOW, "The protocol by which others reach it: http or https."),
    _set("access.control.allow.origin", Type.STRING, "", _LOW, "Origins that browsers may call from; none by default."),
    _set("access.control.allow.methods", Type.STRING, "", _LOW, "Methods that such calls may use."),
    _set(
        "response.http.headers.config",
        Type.STRING,
        "",
        _LOW,
        "Rules for headers of all answers, such as set X-Frame-Options:DENY.",
        Check(
            _headers, "rules of the form [set|add|setDate|addDate] [header name]:[header value], separated by commas"
        ),
    ),
    _set(
        "ssl.client.auth",
        Type.STRING,
        "none",
        _LOW,
        "Whether REST clients must show a certificate.",
        OneOf("required", "requested", "none"),
    ),
    _set(
        "rest.extension.classes",
        Type.LIST,
        [],
        _LOW,
        "Extensions of the REST API: Apache's BasicAuthSecurityRestExtension, and those of installed Python packages.",
        ListOf(),
    ),
    _set(
        "admin.listeners",
        Type.LIST,
        None,
        _LOW,
        "Where /admin listens if not on listeners; empty switches it off.",
        ListOf(null=True),
    ),
)

RESTART: Final = Settings(
    _set(
        "task.restart.enabled",
        Type.BOOLEAN,
        True,
        _MEDIUM,
        "Whether a task that failed with a retriable error is restarted automatically; a connector may say otherwise.",
    ),
    _set(
        "task.restart.max.attempts",
        Type.INT,
        30,
        _LOW,
        "How many restarts in a row; a task that ran well starts counting at 0 again.",
        Range(0),
    ),
    _set("task.restart.backoff.ms", Type.LONG, 1000, _LOW, "The first pause, which each attempt doubles.", Range(1)),
    _set(
        "task.restart.backoff.max.ms",
        Type.LONG,
        300_000,
        _LOW,
        "The longest pause. A task that ran for this long has run well.",
        Range(1),
    ),
)
"""A worker's settings for all tasks; a connector may set its own."""

BODY_BOUND: Final = _set(
    "rest.max.request.bytes",
    Type.INT,
    16 << 20,
    _LOW,
    "The bytes that the body of a REST request may have; a longer one is refused with 413.",
    Range(1),
)

KAFKA_AWAY: Final = _set(
    "health.kafka.away.ms",
    Type.LONG,
    60_000,
    _LOW,
    "After how long without an answer from Kafka GET /health?strict is 503.",
    Range(0),
)

CLAIMED_VERSION: Final = _set(
    "rest.connect.version",
    Type.STRING,
    CONNECT_VERSION,
    _LOW,
    "The version of Kafka Connect that GET / and the metrics name, for clients that look at it; nothing else follows. "
    "Plugins keep versions of their own.",
    Check(_version, "a version"),
)

CONSOLE: Final = _set(
    "rest.console.enabled",
    Type.BOOLEAN,
    True,
    _LOW,
    "Whether the worker has pages for people at /console, under the login and the rights of its REST API.",
)

TASKS_BOUND: Final = _set(
    "tasks.max.limit",
    Type.INT,
    5000,
    _LOW,
    "The most tasks of a connector: a larger tasks.max is refused, and so are more task configs, whatever "
    "tasks.max.enforce says.",
    Range(1),
)

METRIC_NAMES: Final = ("strimzi-jmx", "strimzi-reporter", "confluent")
"""The allowed items of `metrics.names`."""

OURS: Final = RESTART + Settings(
    *LOGIN,
    _set(
        "rest.allowed.hosts",
        Type.LIST,
        [],
        _MEDIUM,
        "Host names that REST clients may ask the worker by, beside its own, addresses, and names that cannot be "
        "public, such as connect, localhost and connect.kafka.svc; *.example.org allows all names below, * all.",
        ListOf(),
    ),
    BODY_BOUND,
    CONSOLE,
    CLAIMED_VERSION,
    KAFKA_AWAY,
    TASKS_BOUND,
    _set(
        "rest.max.connections",
        Type.INT,
        256,
        _LOW,
        "Connections that the REST API has at once; for one more the longest idle one is closed.",
        Range(1),
    ),
    _set(
        "rest.mask.secrets",
        Type.BOOLEAN,
        False,
        _MEDIUM,
        "Whether answers show secrets in configs as [hidden]; sending [hidden] back keeps the present value.",
    ),
    _set(
        RIGHTS_FILE,
        Type.STRING,
        None,
        _HIGH,
        "The TOML file that says who may do what with which connectors; without it everybody may do everything. It "
        "is read again when it changes.",
    ),
    _set(
        AUDIT,
        Type.STRING,
        "none",
        _MEDIUM,
        "The form of the audit log, which has a line for each change that is asked for over REST: none, text or json.",
        OneOf("none", "text", "json"),
    ),
    _set(
        AUDIT_FILE,
        Type.STRING,
        None,
        _LOW,
        "The file that these lines are appended to, without it the worker's log; it may be moved away at any time.",
    ),
    _set(
        "metrics.names",
        Type.LIST,
        list(METRIC_NAMES[:1]),
        _LOW,
        "Whose names GET /metrics has: of Strimzi's rules for the JMX exporter, of Strimzi's Metrics Reporter, or "
        "of Confluent's jmx-monitoring-stacks. Several may be named; the last two share some names.",
        ListOf(METRIC_NAMES),
    ),
    _set(
        "metrics.listeners",
        Type.LIST,
        [],
        _LOW,
        "Where /metrics answers beside listeners, alone and without a login, as on http://:9404.",
        ListOf(),
    ),
    *METRICS_OUTPUT,
    _set(
        "rest.access.log",
        Type.STRING,
        "changes",
        _LOW,
        "Which requests are logged at INFO: all; changes, and what failed; or none. The others are logged at DEBUG.",
        OneOf("all", "changes", "none"),
    ),
    _set(
        "file.allowed.paths",
        Type.LIST,
        [],
        _MEDIUM,
        "Folders and files that connectors may open: of file connectors, SQLite, key and trust stores, key tabs, "
        "certificates; empty allows all.",
        ListOf(),
    ),
    _set(
        "jdbc.allowed.schemes",
        Type.LIST,
        ["postgresql", "mysql", "mariadb", "sqlserver", "oracle", "sqlite"],
        _MEDIUM,
        "What may follow jdbc: in connectors' URLs. A driver of a database that lives in files opens files, or runs "
        "code, that its URL names; SQLite's are bounded by file.allowed.paths.",
        ListOf(),
    ),
    _set(
        ALLOWED_HOSTS,
        Type.LIST,
        ["*"],
        _MEDIUM,
        "Hosts that connectors may name, such as those of databases, registries, brokers and stores: patterns of "
        "names, as *.example.com, and networks, as 10.0.0.0/8 or an address; * allows all names. Link-local addresses "
        "and the metadata services of clouds are allowed by a network only.",
        Check(hosts_problem, "patterns of hosts' names, and networks"),
    ),
    _set(
        TRUSTED,
        Type.LIST,
        [],
        _MEDIUM,
        "Names of connectors, or patterns as backup-*, that may read and write the internal topics of workers, "
        "MirrorMaker and Kafka, and use the consumer groups and client ids of others; none by default.",
        ListOf(),
    ),
    _set(
        "java.plugins.preferred",
        Type.LIST,
        [],
        _LOW,
        "Class names of plugins that are run from their jars on plugin.path though Headrace has its own of that name.",
        ListOf(),
    ),
    *JAVA_HOST,
    _set(
        "python.transforms.allowed",
        Type.LIST,
        [],
        _MEDIUM,
        "Modules and packages whose functions connectors may name in headrace.transforms.Python, which runs them in "
        "the worker and in Spark's executors; none by default, * allows all that can be imported.",
        ListOf(),
    ),
    _set(
        "sink.static.membership",
        Type.BOOLEAN,
        True,
        _MEDIUM,
        "Whether sink tasks are static members of their consumer groups: after a crash a task has its partitions back "
        "at once, where a dynamic member waits for consumer.session.timeout.ms. A connector's own "
        "consumer.override.group.instance.id is taken as it is. Needs brokers from 2.3 on.",
    ),
    _set(
        "batch.transform.timeout.ms",
        Type.LONG,
        300_000,
        _MEDIUM,
        "How long a batch may take in a connector's converters and transforms. A task whose batch takes longer fails, "
        "and what computes for it is given up. Batches of other tasks go on meanwhile. A large batch, which runs as a "
        "Spark job, may compute so long, and at least a minute, for each 1,000 records; time that it waits is free.",
        Range(1000),
    ),
    _set(
        "preview.timeout.ms",
        Type.LONG,
        15_000,
        _LOW,
        "How long a preview may take. One that takes longer is given up, and its answer names the stage that took the "
        "time.",
        Range(1000),
    ),
    _set(
        "sink.max.record.bytes",
        Type.INT,
        8 << 20,
        _MEDIUM,
        "The most bytes that a sink's record may have once decompressed (key, value and headers): a task that meets a "
        "larger one fails. Raise spark.driver.memory with it: JSON takes up to some 20 times as much there.",
        Range(1),
    ),
    _set(
        "cluster.id.accept",
        Type.STRING,
        None,
        _LOW,
        "The id of a Kafka cluster to accept in place of the one recorded in the offset file.",
    ),
)
"""Headrace's own settings of every worker."""

_STORAGE_FILE: Final = _set(
    "offset.storage.file.filename", Type.STRING, REQUIRED, _HIGH, "The file in which source offsets are kept."
)

_NOT_MORE_THAN_BROKERS: Final = PositiveOrBrokers(
    "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster"
)
_PARTITIONS: Final = PositiveOrBrokers("Number of partitions must be positive")
_MILLIS: Final = Range(0, 2_147_483_647)

_GROUP: Final = Settings(
    _set("group.id", Type.STRING, REQUIRED, _HIGH, "The id that all workers of this cluster share."),
    _set("session.timeout.ms", Type.INT, 10_000, _HIGH, "After this time without a heartbeat a worker counts as gone."),
    _set("rebalance.timeout.ms", Type.INT, 60_000, _HIGH, "How long workers may take to join a rebalance."),
    _set("heartbeat.interval.ms", Type.INT, 3000, _HIGH, "How often a worker shows that it is there."),
    _set(
        "exactly.once.source.support",
        Type.STRING,
        "disabled",
        _HIGH,
        "Whether sources may write in transactions; all workers must be at preparing before any is enabled.",
        OneOfIgnoringCase("disabled", "enabled", "preparing"),
    ),
)

JOINING: Final = _set(
    "join.obstacles",
    Type.STRING,
    "refuse",
    _MEDIUM,
    "What a worker does that lacks a class or feature which its cluster's connectors need: refuse to join, or accept.",
    OneOf("refuse", "accept"),
)
OURS_OF_CLUSTERS: Final = (
    JOINING,
    _set(
        PRINCIPAL_SECRET,
        Type.PASSWORD,
        None,
        _MEDIUM,
        "A text that all workers of the cluster share: a worker that forwards a request proves by it, too, who asked. "
        "Without it the key in the config topic suffices, which all can have who may read that topic.",
        Check(_not_empty, "a text that is not empty"),
    ),
    *HISTORY,
)
"""Headrace's own settings of a cluster's worker."""

_CLIENT: Final = (
    _of(
        ADMIN,
        {"receive.buffer.bytes": 32_768, "request.timeout.ms": 40_000, "connections.max.idle.ms": 540_000},
        "metadata.max.age.ms",
        "client.id",
        "send.buffer.bytes",
        "receive.buffer.bytes",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "request.timeout.ms",
        "connections.max.idle.ms",
        "security.protocol",
    )
    + SASL
)

INTERNAL_TOPICS_MADE: Final = _set(
    "internal.topics.automatic.creation.enable",
    Type.BOOLEAN,
    True,
    _MEDIUM,
    "True: a worker creates those of these topics that are missing, and that of its history. Else it does not start.",
)
"""A setting of Kafka 4.4."""

_CLUSTER: Final = Settings(
    _set("worker.sync.timeout.ms", Type.INT, 3000, _MEDIUM, "How long a worker tries to catch up with the others."),
    _set("worker.unsync.backoff.ms", Type.INT, 300_000, _MEDIUM, "How long it stays out when it could not."),
    _set("offset.storage.topic", Type.STRING, REQUIRED, _HIGH, "The topic in which source offsets are kept."),
    _set("offset.storage.partitions", Type.INT, 25, _LOW, "Its partitions, when it is created.", _PARTITIONS),
    _set("offset.storage.replication.factor", Type.SHORT, 3, _LOW, "Its replicas.", _NOT_MORE_THAN_BROKERS),
    _set("config.storage.topic", Type.STRING, REQUIRED, _HIGH, "The topic in which connector configs are kept."),
    _set("config.storage.replication.factor", Type.SHORT, 3, _LOW, "Its replicas.", _NOT_MORE_THAN_BROKERS),
    _set("status.storage.topic", Type.STRING, REQUIRED, _HIGH, "The topic in which statuses are kept."),
    _set("status.storage.partitions", Type.INT, 5, _LOW, "Its partitions, when it is created.", _PARTITIONS),
    _set("status.storage.replication.factor", Type.SHORT, 3, _LOW, "Its replicas.", _NOT_MORE_THAN_BROKERS),
    INTERNAL_TOPICS_MADE,
    _set(
        "connect.protocol",
        Type.STRING,
        "sessioned",
        _LOW,
        "How workers share out connectors and tasks.",
        Check(_protocol, "one of eager, compatible, sessioned"),
    ),
    _set(
        "scheduled.rebalance.max.delay.ms",
        Type.INT,
        300_000,
        _LOW,
        "How long the work of a worker that left waits for its return.",
        _MILLIS,
    ),
    _set("inter.worker.key.ttl.ms", Type.INT, 3_600_000, _LOW, "The life of a key for internal requests.", _MILLIS),
    _set(
        "inter.worker.key.generation.algorithm",
        Type.STRING,
        "HmacSHA256",
        _LOW,
        "The algorithm that makes such keys.",
        Check(_algorithm, f"one of {', '.join(ALGORITHMS)}"),
    ),
    _set("inter.worker.key.size", Type.INT, None, _LOW, "The size of such keys; the algorithm's own if not set."),
    _set(
        "inter.worker.signature.algorithm",
        Type.STRING,
        "HmacSHA256",
        _LOW,
        "The algorithm that signs internal requests.",
        Check(_algorithm, f"one of {', '.join(ALGORITHMS)}"),
    ),
    _set(
        "inter.worker.verification.algorithms",
        Type.LIST,
        ["HmacSHA256"],
        _LOW,
        "The algorithms in which internal requests are accepted.",
        Check(_algorithms, f"some of {', '.join(ALGORITHMS)}"),
    ),
    replace(ADMIN["metadata.recovery.strategy"]),
    replace(ADMIN["metadata.recovery.rebootstrap.trigger.ms"], validator=OrNull(Range(0))),
)

STANDALONE: Final = _COMMON + _REST + OURS + (_STORAGE_FILE,)
"""Every setting of a standalone worker."""

DISTRIBUTED: Final = _COMMON + _REST + OURS + OURS_OF_CLUSTERS + _GROUP + _CLIENT + _CLUSTER
"""Every setting of a distributed worker."""
