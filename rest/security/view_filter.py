"""Limits answers to what the requester may see: a connector's config and error traces need the right view_config.

Decided: without it answers are complete but with an empty config, because consoles list connectors by them; loses: only
the 403 of GET /connectors/{name}/config tells that a config is hidden.
Decided: traces count as config, because errors quote settings; loses: with view alone one sees that a task FAILED, not
why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final

from fastapi import Depends

from headrace.config.worker.rights import Right
from headrace.rest.http.bodies import ConfiguredConnector, ConnectorStateInfo, TaskState
from headrace.rest.http.masking import Masking, MaskingOf
from headrace.rest.security.access import AccessOf
from headrace.rest.security.rights import Access
from headrace.worker.model import ConnectorInfo, ConnectorState, Status

_NO_TRACE: Final = f"The trace needs the right {Right.VIEW_CONFIG}, because it may quote the config."


@dataclass(frozen=True)
class ViewFilter:
    """Makes answers without anything that the requester may not see."""

    access: Access
    masking: Masking

    def connector(self, info: ConnectorInfo) -> ConfiguredConnector:
        """A connector as configured."""
        may = self.access.may(Right.VIEW_CONFIG, info.name)
        return ConfiguredConnector.of(info, self.masking.shown(info.config) if may else {})

    def state(self, state: ConnectorState) -> ConnectorStateInfo:
        """The states of a connector and its tasks."""
        name, tasks = state.name, state.tasks.items()
        connector = self._status(name, state.connector)
        return ConnectorStateInfo.of(
            replace(state, connector=connector, tasks={number: self._status(name, one) for number, one in tasks})
        )

    def task(self, connector: str, number: int, status: Status) -> TaskState:
        """The state of a task."""
        return TaskState.of(number, self._status(connector, status))

    def _status(self, connector: str, status: Status) -> Status:
        if not status.trace or self.access.may(Right.VIEW_CONFIG, connector):
            return status
        return replace(status, trace=_NO_TRACE)


async def _shown(access: AccessOf, masking: MaskingOf) -> ViewFilter:
    return ViewFilter(access, masking)


ViewFilterOf = Annotated[ViewFilter, Depends(_shown)]
"""Makes the answers for this requester."""
