"""A connector's definition: its validated config, its target, its task configs and its secrets."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.config.connector.unknown_settings import UnknownSetting
from headrace.config.variables import Variables
from headrace.config.worker.allowed_files import check_files
from headrace.config.worker.allowed_hosts import check_hosts
from headrace.config.worker.internal_topics import check_internal_topics
from headrace.config.worker.settings import TASKS_BOUND
from headrace.worker.errors import BadRequest, ConnectError
from headrace.worker.hosting.ports import PluginCatalog
from headrace.worker.logging.redaction import Redaction, running, secrets_of
from headrace.worker.model import Config, Kind, TargetState

if TYPE_CHECKING:
    from headrace.plugins.contracts import Connector
    from headrace.worker.storage.cluster_config import ClusterConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConnectorDefinition:
    """A connector's config, target and task configs; variables in configs are not resolved."""

    config: Config
    kind: Kind
    plugin: type[Connector]
    target: TargetState
    task_configs: tuple[Mapping[str, str], ...] = ()
    applied: Config | None = None
    """The config when `task_configs` were made; converters and transforms are read from it."""
    generation: int | None = None
    """The number of times that task configs were made before; None in standalone mode."""
    variables: Variables = field(kw_only=True)
    worker: Mapping[str, Any] = field(kw_only=True, default_factory=dict)
    """Parsed worker settings that plugins may read."""
    unread: Sequence[UnknownSetting] = field(kw_only=True, default=())
    """The settings that nothing reads; empty unless the config was just validated."""

    @classmethod
    def of(cls, name: str, cluster: ClusterConfig, plugins: PluginCatalog) -> ConnectorDefinition:
        """Read the connector from its cluster's configuration. Errors: BadRequest if its class is unknown here."""
        config = cluster.connectors[name]
        class_name = config.get("connector.class") or ""
        kind = plugins.kind(class_name)
        if kind is None:
            raise BadRequest(
                f"Connector {name} is of class {class_name}, which this worker does not have. Install the plugin that "
                "has it on every worker of the cluster, then restart the connector"
            )
        return cls(
            dict(config),
            kind,
            plugins.connector(class_name, config.get("connector.plugin.version")),
            cluster.targets[name],
            cluster.task_configs(name),
            cluster.applied.get(name),
            cluster.generations.get(name),
            variables=plugins.variables,
            worker=plugins.worker,
        )

    def instance(self) -> Connector:
        """Make the connector; it has its worker's settings and no config yet."""
        made = self.plugin()
        made.worker = self.worker
        return made

    @property
    def raw(self) -> dict[str, str]:
        """The stored config: nulls are absent."""
        return {key: value for key, value in self.config.items() if value is not None}

    @property
    def plain(self) -> dict[str, str]:
        """The config as plugins get it; variables are resolved on each call. Errors: UnresolvedError."""
        return self.variables.resolve(self.raw)

    @property
    def ready(self) -> dict[str, str]:
        """The config as of `plain`, for a start, checked: the worker allows its topics, files and hosts.

        Errors: UnresolvedError, ConfigError, HostUnknown; ConnectError for more tasks than the worker allows.
        """
        plain = self.plain
        _ = self.max_tasks  # its error fails the start: the config topic may have a config that REST would refuse
        check_internal_topics(plain, self.raw["name"], self.worker)
        check_files(plain, self.worker)
        check_hosts(plain, self.worker)
        return plain

    def task_config(self, number: int) -> dict[str, str]:
        """A task's config as the task gets it.

        Errors: UnresolvedError; ConnectError if the config topic has none that counts for this worker.
        """
        if number >= len(self.task_configs):
            raise ConnectError(
                f"This worker has no config of task {self.raw['name']}-{number}: the connector has more tasks than its "
                f"{TASKS_BOUND.name} ({self._tasks_bound}), or some of the task configs are not in the config topic. "
                f"Lower tasks.max, or raise {TASKS_BOUND.name} of every worker; then restart the connector."
            )
        return self.variables.resolve(self.task_configs[number])

    @property
    def version(self) -> str | None:
        """The plugin's."""
        return getattr(self.plugin, "version", None)

    @property
    def max_tasks(self) -> int:
        """`tasks.max`, or the connector's own default. Errors: ConnectError if the worker allows fewer."""
        most = self._tasks_bound
        wanted = int(self._now("tasks.max", str(min(most, self.plugin.default_tasks_max))))
        if wanted > most:
            raise ConnectError(
                f"tasks.max is {wanted}, and {TASKS_BOUND.name} of this worker {most}: lower the one or raise the other"
            )
        return wanted

    @property
    def _tasks_bound(self) -> int:
        most: int = self.worker.get(TASKS_BOUND.name, TASKS_BOUND.default)
        return most

    def redaction(self) -> Redaction:
        """The redaction of its config's secrets, one for all that runs of it on this worker.

        It has the values of variables as far as they are known, and learns others in its scope.
        """
        raw, mask = self.raw, self.plugin.settings.mask
        known = self.variables.last(raw)
        made = Redaction.of(raw, mask(raw), self.variables.found_last(raw))
        made.learn(secrets_of(known, mask(known)))
        return running(made)

    def completed(self, made: Sequence[Mapping[str, str]]) -> tuple[Mapping[str, str], ...]:
        """The task configs to store: with variables for secrets, and with the keys that Connect adds."""
        raw = self.raw
        topics = {key: value for key, value in raw.items() if key in ("topics", "topics.regex")}
        added = topics if self.kind == "sink" else {}
        if self.plugin.task_class:  # else the config names it: a started jar connector tells its own
            added["task.class"] = self.plugin.task_class
        return tuple({**self.variables.unresolved(raw, config), **added} for config in made)

    def check_stopped(self) -> None:
        """Check that the connector is STOPPED without tasks, so that its offsets may change. Errors: BadRequest."""
        if self.target is not TargetState.STOPPED or self.task_configs:
            raise BadRequest(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{self.raw['name']}/stop' "
                "endpoint"
            )

    def check_count(self, count: int) -> None:
        """Check that the worker allows so many tasks, and `tasks.max` too if it is enforced. Errors: ConnectError."""
        if count <= self.max_tasks:
            return
        if count > (most := self._tasks_bound):
            raise ConnectError(
                f"The connector {self.raw['name']} has generated {count} tasks, and this worker allows {most} "
                f"({TASKS_BOUND.name})"
            )
        generated = (
            f"The connector {self.raw['name']} has generated {count} tasks, which is greater than {self.max_tasks}, "
            "the maximum number of tasks it is configured to create. "
        )
        if self._now("tasks.max.enforce", "true").strip().lower() == "false":
            log.warning("%sThis behaviour should be considered a bug.", generated)
            return
        raise ConnectError(
            f"{generated}This behaviour should be considered a bug and is disallowed. If necessary, it can be "
            "permitted by reconfiguring the connector with 'tasks.max.enforce' set to false; however, this option will "
            "be removed in a future release of Kafka Connect."
        )

    def _now(self, key: str, default: str) -> str:
        return self.variables.resolve({key: self.raw.get(key, default)})[key]


def patched(config: Config, changes: Config) -> Config:
    """Apply these changes to the config; a null removes its key."""
    removed = {key for key, value in changes.items() if value is None}
    return {key: value for key, value in {**config, **changes}.items() if key not in removed}


def validated(plugins: PluginCatalog, config: Config, target: TargetState = TargetState.STARTED) -> ConnectorDefinition:
    """Validate a config and return the connector that it describes.

    Errors: BadRequest with everything that is wrong with it.
    """
    validation = plugins.validate(config)
    refusal = validation.refusal()
    if refusal is not None:
        raise BadRequest(refusal)
    for key, advice in validation.unread:
        log.warning("Connector %s: nothing reads its setting %s: %s", config.get("name"), key, advice)
    name = config["connector.class"] or ""
    kind = plugins.kind(name)
    if kind is None:
        raise BadRequest(f"The plugin {name} is neither a source nor a sink")
    plugin = plugins.connector(name, config.get("connector.plugin.version"))
    return ConnectorDefinition(
        dict(config),
        kind,
        plugin,
        target,
        variables=plugins.variables,
        worker=plugins.worker,
        unread=validation.unread,
    )
