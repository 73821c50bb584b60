"""One Kafka client's settings by Java's names, and their translation for each library.

`config/connector/clients.py` merges the layers of settings for the clients of a worker and of its connectors.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from headrace.config.kafka.client_keys import ASSIGNORS, CLASS_KEYS, HARMLESS, KEPT, PASSED, STATED
from headrace.config.kafka.client_security import Login, Tls, login, tls
from headrace.config.kafka.client_settings import ADMIN, CONSUMER, PRODUCER
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Settings
from headrace.config.values import as_text

log = logging.getLogger(__name__)

SETTINGS: Final = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}
"""The settings of each kind of Java's clients."""

_SPARK_CONSUMER: Final = {
    "max.poll.records": "5000",
    "receive.buffer.bytes": "-1",
    "fetch.max.wait.ms": "10",
}
"""Defaults of Spark's Kafka source that differ from Java's.

A job with 500 records a poll takes 1.5 times as long; with more than a fetch holds the garbage collector copies them.
The system's receive buffer (-1) lets the broker send ahead. After each poll Spark asks for the partition's end, which
the broker answers after the client's prefetch; at a partition's end the prefetch waits for records that no batch reads
(four partitions, two cores: 1.9 s with 10 ms instead of 3.0 s)."""

_SPARK_OWNS: Final = (
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "auto.offset.reset",
    "enable.auto.commit",
    "client.id",
    "partition.assignment.strategy",
)
_MOST_MESSAGES: Final = 1_000_000


@dataclass(frozen=True)
class ClientConfig:
    """The configuration of one Kafka client; `java` has its settings by Java's names, all layers merged, as text.

    The functions of `config/connector/clients.py` make it. Settings that are not supported are refused.

    Errors: ConfigError with every problem.
    """

    kind: str
    java: Mapping[str, str] = field(repr=False)
    login: Login = field(init=False)
    tls: Tls = field(init=False)
    values: Mapping[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        settings = SETTINGS[self.kind]
        java = {key: value for key, value in self.java.items() if key in settings}
        problems = settings.problems(java) + class_loading(self.kind, java) + _unserved(java)
        for name, value in {"login": login(java, problems), "tls": tls(java, problems)}.items():
            object.__setattr__(self, name, value)
        if problems:
            raise ConfigError(problems, f"The {self.kind} of Kafka")
        object.__setattr__(self, "java", java)
        object.__setattr__(self, "values", settings.parse(java))
        for key in without_counterpart(self.kind, java):
            _say_once(self.kind, key)

    def __getitem__(self, key: str) -> Any:
        """The parsed value of a Java setting, or its default: `config["max.poll.records"]`."""
        return self.values[key]

    def librdkafka(self, memory_bytes: int | None = None, answer_bytes: int | None = None) -> dict[str, Any]:
        """The configuration for confluent_kafka; `memory_bytes` bounds the client's buffer.

        `answer_bytes`: the bytes of one fetch response, compressed, unless the consumer's settings bound it.
        """
        table = PASSED[self.kind]
        stated = [key for key in table if key in self.java or key in STATED[self.kind]]
        keys = {table[key].librdkafka: self._bounded(key) for key in stated}
        rdkafka = {name: value for name, value in keys.items() if name is not None and value is not None}
        for backoff in ("reconnect.backoff", "retry.backoff"):
            # Java allows a first pause above the longest pause, librdkafka does not.
            if f"{backoff}.ms" in rdkafka:
                least, most = rdkafka[f"{backoff}.ms"], self._bounded(f"{backoff}.max.ms")
                rdkafka[f"{backoff}.max.ms"] = max(least, most)
        rdkafka["security.protocol"] = self.values["security.protocol"].lower()
        rdkafka |= {"producer": self._producer, "consumer": self._consumer, "admin": dict}[self.kind]()
        return rdkafka | self.login.librdkafka() | dict(self.tls.librdkafka) | self._memory(memory_bytes, answer_bytes)

    def kafka_python(self) -> dict[str, Any]:
        """Keyword arguments for kafka-python's clients. Errors: ConfigError for unusable keys and certificates."""
        table = PASSED[self.kind]
        names = {key: table[key].kafka_python for key in table if key in self.java}
        kwargs = {name: self._bounded(key) for key, name in names.items() if name is not None}
        try:
            secure = self.login.kafka_python() | self.tls.kafka_python()
        except (ValueError, OSError) as e:
            raise ConfigError(Problem("ssl.keystore.location", None, f"TLS cannot be set up: {e}.")) from e
        return kwargs | secure | {"security_protocol": self.values["security.protocol"].upper()}

    def spark(self) -> dict[str, str]:
        """Options for Spark's Kafka source: Java's names after `kafka.`, without settings that load classes.

        A JAAS text is written anew. Logins by token are left out.
        """
        plain = {
            key: value
            for key, value in self.java.items()
            if key not in CLASS_KEYS and key not in _SPARK_OWNS and not key.startswith("sasl.")
        }
        if self.kind == "consumer":
            plain = _SPARK_CONSUMER | plain
        return {f"kafka.{key}": value for key, value in (plain | self.tls.java() | self.login.java()).items()}

    def _bounded(self, key: str) -> Any:
        """The value within the library's limits; lists as text, enumerations in lower case."""
        value, passed = self.values[key], PASSED[self.kind][key]
        if isinstance(value, list):
            return as_text(value)
        if isinstance(value, str) and SETTINGS[self.kind][key].validator is not None:
            return value.lower() if key not in ("transactional.id", "group.instance.id") else value
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        least = value if passed.least is None else max(value, passed.least)
        return least if passed.most is None else min(least, passed.most)

    def _producer(self) -> dict[str, Any]:
        level = self.java.get(f"compression.{self.values['compression.type']}.level")
        keys: dict[str, Any] = {"partitioner": "random" if self.values["partitioner.ignore.keys"] else "murmur2_random"}
        if level is not None:
            keys["compression.level"] = max(-1, min(int(level), 12))
        if "request.timeout.ms" in self.java:
            keys["request.timeout.ms"] = max(1, min(self.values["request.timeout.ms"], 900_000))
        if self.values["transactional.id"] is not None:
            # A message must not outlive its transaction; librdkafka refuses settings that would let it.
            keys["delivery.timeout.ms"] = min(self.values["delivery.timeout.ms"], self.values["transaction.timeout.ms"])
            if self.values["request.timeout.ms"] > self.values["transaction.timeout.ms"] - 100:
                keys["socket.timeout.ms"] = max(10, self.values["transaction.timeout.ms"] - 100)
        return keys

    def _consumer(self) -> dict[str, Any]:
        keys: dict[str, Any] = {
            "auto.offset.reset": {"none": "error"}.get(self["auto.offset.reset"], self["auto.offset.reset"]),
            "partition.assignment.strategy": _assignors(self["partition.assignment.strategy"]),
        }
        if not self["enable.auto.commit"]:
            keys["enable.auto.offset.store"] = False
        if self["group.protocol"].lower() == "consumer":
            # In the new protocol the broker chooses the assignor; librdkafka refuses the setting.
            keys.pop("partition.assignment.strategy")
        return keys

    def _memory(self, memory_bytes: int | None, answer_bytes: int | None) -> dict[str, Any]:
        if self.kind == "producer":
            size = self["buffer.memory"] if memory_bytes is None else memory_bytes
            kbytes = max(1, min(size // 1024, 2_147_483_647))
            return {"queue.buffering.max.kbytes": kbytes, "queue.buffering.max.messages": _MOST_MESSAGES}
        if self.kind != "consumer" or memory_bytes is None:
            return {}
        # A response may overshoot the queue, so it is bounded too; a full queue is polled again soon.
        buffered = {
            "queued.max.messages.kbytes": max(1, min(memory_bytes // 1024, 2_097_151)),
            "fetch.queue.backoff.ms": 50,
        }
        if answer_bytes is None or not self.java.keys().isdisjoint(("max.partition.fetch.bytes", "fetch.max.bytes")):
            largest = max(1_000_000, min(self["fetch.max.bytes"], memory_bytes, 2_147_483_135))
            return buffered | {"fetch.max.bytes": largest}
        # librdkafka needs fetch.max.bytes >= message.max.bytes, which has no other meaning for a consumer.
        answer = ("max.partition.fetch.bytes", "fetch.max.bytes", "message.max.bytes")
        return buffered | dict.fromkeys(answer, answer_bytes)


def _assignors(names: list[str]) -> str:
    """librdkafka's names; it cannot mix eager and cooperative assignors, so eager ones win, as for the default."""
    known = [ASSIGNORS[name] for name in names]
    eager = [name for name in known if name != "cooperative-sticky"]
    return ",".join(eager or known)


def class_loading(kind: str, java: Mapping[str, str]) -> list[Problem]:
    """Problems of settings that would load a class; these are refused."""
    settings, problems = SETTINGS[kind], []
    for key, harmless in CLASS_KEYS.items():
        if key not in java or key not in settings:
            continue
        value = settings[key].judge(java).value
        named = value if isinstance(value, list) else [value] if value else []
        if any(name not in harmless for name in named):
            allowed = f"Remove it, or set it to {' or '.join(harmless)}." if harmless else "Remove it."
            message = f"{key} is refused: it would load code that a configuration names."
            problems.append(Problem(key, as_text(value), message, allowed))
    return problems


def _unserved(java: Mapping[str, str]) -> list[Problem]:
    problems = []
    strategy = CONSUMER["partition.assignment.strategy"].judge(java).value or []
    if unknown := [name for name in strategy if name not in ASSIGNORS]:
        message = f"The assignor {unknown[0]} is not known to the Kafka library within this worker."
        remedy = "Use RangeAssignor, RoundRobinAssignor or CooperativeStickyAssignor."
        problems.append(Problem("partition.assignment.strategy", as_text(strategy), message, remedy))
    reset = java.get("auto.offset.reset", "latest").strip()
    if reset not in ("earliest", "latest", "none") and reset_age_ms(reset) is None:
        message = f"auto.offset.reset={reset} is not served."
        remedy = "Set it to earliest, latest, none or by_duration:<age>, as by_duration:PT1H."
        problems.append(Problem("auto.offset.reset", reset, message, remedy))
    protocol = java.get("group.protocol", "classic").strip().lower()
    if protocol in _OF_THE_OTHER_PROTOCOL:
        message = f"It cannot be set when group.protocol={protocol}."
        problems += [
            Problem(key, java[key], message, f"Remove it{_INSTEAD[protocol]}.")
            for key in _OF_THE_OTHER_PROTOCOL[protocol]
            if key in java
        ]
    return problems + _not_together(java)


def _not_together(java: Mapping[str, str]) -> list[Problem]:
    """Problems of combinations that librdkafka refuses, and only when a client starts."""
    problems = []
    if java.get("enable.idempotence", "false").strip().lower() == "true":
        retries, flight = (_number(java, key) for key in ("retries", _IN_FLIGHT))
        remedy = "Change it, or set enable.idempotence=false."
        if retries == 0:
            problems.append(Problem("retries", java["retries"], "An idempotent producer needs retries.", remedy))
        if flight is not None and flight > _MOST_IN_FLIGHT:
            message = f"An idempotent producer takes {_MOST_IN_FLIGHT} at most."
            problems.append(Problem(_IN_FLIGHT, java[_IN_FLIGHT], message, remedy))
        if java.get("acks", "all").strip() not in ("all", "-1"):
            problems.append(Problem("acks", java["acks"], "An idempotent producer needs acks=all.", remedy))
    poll_ms, session_ms = (_number(java, key) for key in ("max.poll.interval.ms", "session.timeout.ms"))
    if (poll_ms is not None or session_ms is not None) and java.get("group.protocol", "").strip().lower() != "consumer":
        poll_ms, session_ms = poll_ms or 300_000, session_ms or 45_000
        if poll_ms < session_ms:
            key = "max.poll.interval.ms" if "max.poll.interval.ms" in java else "session.timeout.ms"
            message = "max.poll.interval.ms must not be below session.timeout.ms in the Kafka library of this worker."
            problems.append(Problem(key, java[key], message, f"Here they are {poll_ms} and {session_ms}."))
    return problems


def _number(java: Mapping[str, str], key: str) -> int | None:
    text = java.get(key, "").strip()
    return int(text) if text.isdecimal() else None


_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
_MOST_IN_FLIGHT: Final = 5


_OF_THE_OTHER_PROTOCOL: Final = {
    "consumer": ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"),
    "classic": ("group.remote.assignor",),
}
_INSTEAD: Final = {
    "consumer": ", also from the worker's consumer. settings: the brokers' group.consumer.* settings decide",
    "classic": ", or set group.protocol=consumer",
}
_AGE: Final = re.compile(
    r"by_duration:P(?=.)(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)


def reset_age_ms(reset: str) -> int | None:
    """The age in milliseconds of `auto.offset.reset=by_duration:<ISO 8601>`; None for other values."""
    if (found := _AGE.fullmatch(reset)) is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    milliseconds = int((found[5] or "0").ljust(9, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds


def without_counterpart(kind: str, java: Mapping[str, str]) -> list[str]:
    """Settings without effect in this worker whose values are not Java's defaults."""
    settings = SETTINGS[kind]
    served = {*PASSED[kind], *KEPT[kind], *HARMLESS, *CLASS_KEYS}
    if kind == "producer":
        served |= {"partitioner.ignore.keys", *(key for key in settings_named(settings, "compression."))}
    if kind == "consumer":
        served |= {"auto.offset.reset", "partition.assignment.strategy"}
    served |= {f"ssl.{name}" for name in _SERVED_SSL} | {f"sasl.oauthbearer.{name}" for name in _SERVED_OAUTH}
    served |= {*_TIMES_OF_LOGIN, *settings_named(settings, "sasl.oauthbearer.assertion.")}
    return [
        key
        for key in java
        if key in settings and key not in served and settings[key].judge(java).value != settings[key].default
    ]


_SERVED_SSL: Final = (
    "keystore.type",
    "keystore.location",
    "keystore.password",
    "keystore.key",
    "keystore.certificate.chain",
    "key.password",
    "truststore.type",
    "truststore.location",
    "truststore.password",
    "truststore.certificates",
    "endpoint.identification.algorithm",
)
_TIMES_OF_LOGIN: Final = ("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms")
_SERVED_OAUTH: Final = (
    "token.endpoint.url",
    "scope",
    "client.credentials.client.id",
    "client.credentials.client.secret",
    "header.urlencode",
)


def settings_named(settings: Settings, prefix: str) -> list[str]:
    """The names with this prefix."""
    return [setting.name for setting in settings if setting.name.startswith(prefix)]


@cache
def _say_once(kind: str, key: str) -> None:
    log.warning("The %s setting '%s' has no counterpart in the Kafka library within this worker: ignored.", kind, key)
