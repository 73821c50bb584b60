"""A worker's configuration: its parsed settings, and its other keys for clients and Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from headrace.config import removed
from headrace.config.kafka.client_settings import ADMIN, CONSUMER, PRODUCER
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Settings
from headrace.config.suggestions import nearest, question
from headrace.config.tls import RenewedContext
from headrace.config.values import Type, read
from headrace.config.variables import NO_VARIABLES, Variables
from headrace.config.worker import audit, history, rights
from headrace.config.worker.allowed_files import OWN_FILES, own_files
from headrace.config.worker.allowed_hosts import ALLOWED_HOSTS
from headrace.config.worker.audit import AUDIT, AUDIT_FILE
from headrace.config.worker.internal_topics import OF_WORKERS
from headrace.config.worker.java_only import heeded
from headrace.config.worker.listeners import Listener, advertised, parse_listeners
from headrace.config.worker.overrides import OverridePolicy
from headrace.config.worker.rest_tls import (
    ADMIN_LISTENERS,
    ALL_LISTENERS,
    HTTPS_PREFIXES,
    LISTENERS,
    METRICS_LISTENERS,
    SERVER_SETTINGS,
    listener_problems,
    listeners_tls,
    workers_tls,
)
from headrace.config.worker.rights import RIGHTS_FILE
from headrace.config.worker.settings import DISTRIBUTED, STANDALONE, TASKS_BOUND
from headrace.config.worker.trusted import TRUSTED

log = logging.getLogger(__name__)

_FREE_PREFIXES: Final = (
    "spark.",
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "metrics.context.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
)
_FOR_PLUGINS: Final = (
    "file.allowed.paths",
    "jdbc.allowed.schemes",
    ALLOWED_HOSTS,
    "offset.flush.interval.ms",
    "plugin.path",
    "python.transforms.allowed",
    TRUSTED,
    TASKS_BOUND.name,
)
_CLIENTS: Final = {"producer.": PRODUCER, "consumer.": CONSUMER, "admin.": ADMIN}


@dataclass(frozen=True)
class WorkerConfig:
    """A worker's configuration: `values` has all settings parsed, `originals` the properties, variables resolved."""

    values: Mapping[str, Any] = field(repr=False)
    originals: Mapping[str, str] = field(repr=False)
    settings: Settings = field(repr=False)
    variables: Variables = NO_VARIABLES
    """Resolves the variables in its connectors' configs."""

    @classmethod
    def standalone(cls, props: Mapping[str, str], variables: Variables = NO_VARIABLES) -> WorkerConfig:
        """The configuration of a standalone worker. Errors: ConfigError with all problems."""
        return cls._of(STANDALONE, props, variables)

    @classmethod
    def distributed(cls, props: Mapping[str, str], variables: Variables = NO_VARIABLES) -> WorkerConfig:
        """The configuration of a worker in a cluster. Errors: ConfigError with all problems."""
        return cls._of(DISTRIBUTED, props, variables)

    @classmethod
    def _of(cls, settings: Settings, given: Mapping[str, str], variables: Variables) -> WorkerConfig:
        props = variables.resolve(given)
        problems = _cluster_problems(settings, props) if "group.id" in settings else []
        found = settings.problems(props)
        bad = {problem.key for problem in found}
        found += [problem for problem in [*problems, *_listener_problems(settings, props)] if problem.key not in bad]
        found += [*_unsupported(settings, props), *_access_problems(settings, props), *removed_problems(props)]
        if found:
            raise ConfigError(found, "The worker's configuration")
        props = heeded(settings, props)
        config = cls(settings.parse(props), props, settings, variables)
        for key in config.unknown():
            if key in removed.WORKER:
                log.warning("The setting '%s' has no effect: %s", key, removed.WORKER[key].advice())
                continue
            asked = question(nearest(key, (setting.name for setting in settings)))
            log.warning("The configuration '%s' was supplied but isn't a known config.%s", key, asked)
        return config

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def is_distributed(self) -> bool:
        """True for a worker of a cluster."""
        return "group.id" in self.settings

    @property
    def exactly_once(self) -> Literal["disabled", "preparing", "enabled"]:
        """`exactly.once.source.support`; always `disabled` for a standalone worker."""
        found: Literal["disabled", "preparing", "enabled"]
        found = self.values.get("exactly.once.source.support", "disabled").lower()
        return found

    def for_plugins(self) -> dict[str, Any]:
        """The settings that plugins may read."""
        of_clusters = {name: self.values.get(name) for name in ("group.id", *OF_WORKERS)}
        return {**{name: self[name] for name in _FOR_PLUGINS}, **of_clusters, OWN_FILES: own_files(self.originals)}

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The properties under a prefix, which is cut from their names."""
        return {key.removeprefix(prefix): value for key, value in self.originals.items() if key.startswith(prefix)}

    def shown(self) -> dict[str, str]:
        """The properties with secrets hidden."""
        shown = self.settings.mask(self.originals)
        for prefix, settings in {**_CLIENTS, **dict.fromkeys(HTTPS_PREFIXES, SERVER_SETTINGS)}.items():
            shown |= {prefix + key: value for key, value in settings.mask(self.with_prefix(prefix)).items()}
        return shown

    def spark_conf(self) -> dict[str, str]:
        """The `spark.*` properties by full name."""
        return {key: value for key, value in self.originals.items() if key.startswith("spark.")}

    def storage_topic_config(self, kind: str) -> dict[str, str]:
        """Topic configs to create the internal topic of `config`, `offset` or `status`."""
        given = self.with_prefix(f"{kind}.storage.")
        fixed = ("topic", "partitions", "replication.factor", "cleanup.policy", "file.filename")
        return {key: value for key, value in given.items() if key not in fixed}

    def override_policy(self) -> OverridePolicy:
        """The policy for connectors' overrides of their Kafka clients."""
        return OverridePolicy.of(
            self["connector.client.config.override.policy"], self["connector.client.config.override.allowlist"]
        )

    def listeners(self) -> list[Listener]:
        """The listeners of the REST API."""
        return parse_listeners(self["listeners"])

    def admin_listeners(self) -> list[Listener] | None:
        """The listeners of /admin; None: as the rest, empty: switched off."""
        values = self[ADMIN_LISTENERS]
        return None if values is None else parse_listeners(values, ADMIN_LISTENERS)

    def metrics_listeners(self) -> list[Listener]:
        """The listeners of /metrics alone."""
        return parse_listeners(self[METRICS_LISTENERS], METRICS_LISTENERS)

    def listeners_tls(self, setting: str = LISTENERS) -> RenewedContext | None:
        """The TLS context of the listeners of a setting; None if none is https. Errors: ConfigError."""
        return listeners_tls(self.originals, parse_listeners(self[setting] or [], setting), setting)

    def workers_tls(self) -> RenewedContext:
        """The TLS context for calls to other workers. Errors: ConfigError."""
        return workers_tls(self.originals)

    def advertised(self, bound: list[Listener], fallback_host: str | None = None) -> Listener:
        """The worker's own URL; `bound`: its listeners with their actual ports."""
        return advertised(
            bound,
            self["rest.advertised.listener"],
            self["rest.advertised.host.name"],
            self["rest.advertised.port"],
            fallback_host,
        )

    def unknown(self) -> list[str]:
        """The keys without meaning to a worker, its clients or Spark."""
        return unknown_properties(self.settings, self.originals)


def unknown_properties(settings: Settings, props: Mapping[str, str]) -> list[str]:
    """The keys without meaning to a worker with these settings, its clients or Spark."""
    named = read("config.providers", Type.LIST, props.get("config.providers", ""))
    providers = tuple(f"config.providers.{name}." for name in named)
    return [key for key in props if key not in settings and not _known(key) and not key.startswith(providers)]


def removed_problems(props: Mapping[str, str]) -> Iterator[Problem]:
    """Problems of removed settings that limited access to this worker and have no effect now."""
    for key, one in removed.WORKER.items():
        if one.protects and props.get(key, "").strip() and one.successor not in props:
            yield Problem(key, props[key], f"It has no effect, so that every address would be served: {one.advice()}.")


def _known(key: str) -> bool:
    for prefix, settings in _CLIENTS.items():
        if key.startswith(prefix):
            return key.removeprefix(prefix) in settings
    for prefix in HTTPS_PREFIXES:
        if key.startswith(prefix):
            return key.removeprefix(prefix) in SERVER_SETTINGS
    if key.startswith(_FREE_PREFIXES):
        return True
    # Without prefix these apply to the admin client and the clients of the internal topics.
    return any(key in settings for settings in _CLIENTS.values())


def _listener_problems(settings: Settings, props: Mapping[str, str]) -> list[Problem]:
    judged = {key: settings[key].judge(props) for key in ALL_LISTENERS}
    problems = listener_problems(props, {key: [] if one.errors else one.value or [] for key, one in judged.items()})
    scheme = props.get("rest.advertised.listener")
    if scheme is not None and scheme.strip().lower() not in ("http", "https"):
        message = 'Listener protocol must be either "http" or "https".'
        problems.append(Problem("rest.advertised.listener", scheme, message, "Set it to http, or remove it."))
    return problems


def _cluster_problems(settings: Settings, props: Mapping[str, str]) -> list[Problem]:
    topics = {name: settings[name].judge(props).value for name in OF_WORKERS}
    return [*_signature_problems(settings, props), *history.problems(topics)]


def _signature_problems(settings: Settings, props: Mapping[str, str]) -> list[Problem]:
    key = "inter.worker.verification.algorithms"
    judged = settings[key].judge(props)
    signature = settings["inter.worker.signature.algorithm"].judge(props).value
    if judged.errors or signature in judged.value:
        return []
    message = f"Signature algorithm must be present in {key} list"
    return [Problem("inter.worker.signature.algorithm", signature, message, f"Add {signature} to {key}.")]


def _access_problems(settings: Settings, props: Mapping[str, str]) -> list[Problem]:
    judged = {name: settings[name].judge(props) for name in (RIGHTS_FILE, AUDIT, AUDIT_FILE)}
    values = {name: one.value for name, one in judged.items()}
    return [] if any(one.errors for one in judged.values()) else [*rights.problems(values), *audit.problems(values)]


def _unsupported(settings: Settings, props: Mapping[str, str]) -> list[Problem]:
    """Problems of an unknown override policy: to ignore it would leave its rules unenforced."""
    problems = []
    policy = settings["connector.client.config.override.policy"].judge(props).value
    try:
        OverridePolicy.of(policy, [])
    except ConfigError as e:
        problems += e.problems
    return problems
