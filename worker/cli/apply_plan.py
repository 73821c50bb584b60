"""The steps from a cluster as it is to the connectors that files describe; pure.

A file may keep a secret that the worker does not show: `${hidden}`, which `headrace export` writes for it. Without a
present value it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from headrace.config.problems import ConfigError, Problem
from headrace.config.properties import ConnectorFile
from headrace.config.values import HIDDEN
from headrace.worker.cli.cluster_rest import Present

KEPT: Final = "${hidden}"
"""The value that a file has for a secret that was hidden from its writer."""

Action = Literal["create", "update", "delete"]


@dataclass(frozen=True)
class Step:
    """One connector's change."""

    name: str
    action: Action
    before: Mapping[str, str]
    after: Mapping[str, str]
    """Its config as it is to be sent."""
    state: str | None = None
    """The state to bring it to; None if that stays."""
    state_before: str | None = None
    path: str = ""

    @property
    def differences(self) -> dict[str, tuple[str | None, str | None]]:
        """The values before and after of each key that differs; a hidden value is equal to any."""
        return {
            key: (self.before.get(key), self.after.get(key))
            for key in sorted({*self.before, *self.after})
            if _differ(self.before.get(key), self.after.get(key))
        }


def plan(files: Sequence[ConnectorFile], present: Mapping[str, Present], prune: bool) -> list[Step]:
    """List the steps, by name; `prune`: connectors without a file are deleted.

    Errors: ConfigError for hidden values without a present one.
    """
    steps = [_step(file, present.get(file.name)) for file in files]
    if prune:
        named = {file.name for file in files}
        steps += [Step(name, "delete", one.config, {}) for name, one in present.items() if name not in named]
    return sorted((step for step in steps if step is not None), key=lambda step: step.name)


def _step(file: ConnectorFile, there: Present | None) -> Step | None:
    before = {} if there is None else there.config
    after = _meant(file, before)
    if there is None:
        return Step(file.name, "create", {}, after, file.initial_state, path=file.path)
    state = None if file.initial_state == there.state else file.initial_state
    step = Step(file.name, "update", before, after, state, there.state, file.path)
    return step if state is not None or step.differences else None


def _meant(file: ConnectorFile, before: Mapping[str, str]) -> dict[str, str]:
    lacking = [key for key, value in file.config.items() if value in (KEPT, HIDDEN) and before.get(key) != HIDDEN]
    if lacking:
        message = "It stands for a secret that the worker hides, and there is no such secret at the connector."
        remedy = "Write the secret, or better a variable such as ${file:/secrets.properties:key}."
        raise ConfigError([Problem(f"{file.path}: {key}", None, message, remedy) for key in lacking])
    return {key: HIDDEN if value == KEPT else value for key, value in file.config.items()}


def _differ(before: str | None, after: str | None) -> bool:
    return before != after and not (before == HIDDEN and after is not None)
