"""A connector as it is wanted: its config judged, the tasks that came of it, and what of it is secret."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.config.values import HIDDEN
from headrace.worker.herder import BadRequest, Config, ConnectError, Kind, Plugins, TargetState
from headrace.worker.logs import connector_context

if TYPE_CHECKING:
    from headrace.plugins.contracts import Connector

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Configured:
    """A connector's config, what it is to do, and its tasks."""

    config: Config
    kind: Kind
    plugin: type[Connector]
    target: TargetState
    task_configs: tuple[Mapping[str, str], ...] = ()
    applied: Config | None = None
    """The config when `task_configs` were made: converters and transforms are read from it."""

    @property
    def plain(self) -> dict[str, str]:
        """The config as plugins get it: nulls are absent."""
        return {key: value for key, value in self.config.items() if value is not None}

    @property
    def version(self) -> str | None:
        """Of the plugin."""
        return getattr(self.plugin, "version", None)

    @property
    def max_tasks(self) -> int:
        """`tasks.max`."""
        return int(self.plain.get("tasks.max", "1"))

    @property
    def secrets(self) -> list[str]:
        """The values in its config that may not be shown."""
        return [self.plain[key] for key, shown in self.plugin.settings.mask(self.plain).items() if shown == HIDDEN]

    def completed(self, made: Sequence[Mapping[str, str]]) -> tuple[Mapping[str, str], ...]:
        """The connector's task configs with what Connect adds to each."""
        added = {"task.class": self.plugin.task_class}
        if self.kind == "sink":
            added |= {key: value for key, value in self.plain.items() if key in ("topics", "topics.regex")}
        return tuple({**config, **added} for config in made)

    def check_count(self, count: int) -> None:
        """So many tasks are allowed.

        Errors: ConnectError, unless `tasks.max.enforce` is off.
        """
        if count <= self.max_tasks:
            return
        generated = (
            f"The connector {self.plain['name']} has generated {count} tasks, which is greater than {self.max_tasks}, "
            "the maximum number of tasks it is configured to create. "
        )
        if self.plain.get("tasks.max.enforce", "true").strip().lower() == "false":
            log.warning("%sThis behaviour should be considered a bug.", generated)
            return
        raise ConnectError(
            f"{generated}This behaviour should be considered a bug and is disallowed. If necessary, it can be "
            "permitted by reconfiguring the connector with 'tasks.max.enforce' set to false; however, this option will "
            "be removed in a future release of Kafka Connect."
        )


def judged(plugins: Plugins, config: Config, target: TargetState = TargetState.STARTED) -> Configured:
    """The connector that this config describes.

    Errors: BadRequest with everything that is wrong with it.
    """
    with connector_context(config.get("name") or "", "validate"):
        refusal = plugins.validate(config).refusal()
    if refusal is not None:
        raise BadRequest(refusal)
    name = config["connector.class"] or ""
    kind = plugins.kind(name)
    if kind is None:
        raise BadRequest(f"The plugin {name} is neither a source nor a sink")
    return Configured(dict(config), kind, plugins.connector(name), target)
