"""A cluster as its REST API shows and changes it, for the commands that compare it with files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.config.values import looks_secret
from headrace.worker.cli.exits import CommandFailed
from headrace.worker.cli.worker_rest import Refused, WorkerRest, connector_path, plugin_path

_ACTIONS: Final = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}


@dataclass(frozen=True)
class Present:
    """A connector of the cluster."""

    config: Mapping[str, str]
    state: str
    """RUNNING, PAUSED or STOPPED: what it is to be, as far as its status tells."""


class ClusterRest:
    """The connectors of a worker's cluster."""

    def __init__(self, rest: WorkerRest) -> None:
        self._rest = rest

    def connectors(self) -> dict[str, Present]:
        """List all connectors that may be seen. Errors: CommandFailed."""
        infos = self._rest.asked("GET", "/connectors", query={"expand": "info"})
        statuses = self._rest.asked("GET", "/connectors", query={"expand": "status"})
        found = {}
        with self._rest.understood():
            for name, one in infos.items():
                config = one["info"]["config"]
                if not config:
                    raise CommandFailed(f"the config of connector {name} is not shown: it needs the right view_config")
                state = statuses.get(name, {}).get("status", {}).get("connector", {}).get("state", "RUNNING")
                present = {key: value for key, value in config.items() if value is not None}
                found[name] = Present(present, state if state in _ACTIONS else "RUNNING")
        return found

    def problems(self, config: Mapping[str, str]) -> list[str]:
        """List what a validation of the config finds. Errors: CommandFailed."""
        if not config.get("connector.class"):
            return ["connector.class: it is missing"]
        found = self._rest.asked("PUT", f"{plugin_path(config)}/validate", dict(config))
        with self._rest.understood():
            values = [one["value"] for one in found["configs"]]
            return [f"{value['name']}: {error}" for value in values for error in value["errors"]]

    def secrets(self, config: Mapping[str, str]) -> frozenset[str]:
        """Name the settings of a config that are secrets, by their declaration or name. Errors: CommandFailed."""
        try:
            declared = self._rest.asked("GET", plugin_path(config)) if config.get("connector.class") else []
        except Refused:  # a plugin that the cluster does not have: the names decide
            declared = []
        with self._rest.understood():
            of_type = {one["name"] for one in declared if one["type"] == "PASSWORD"}
        return frozenset(key for key in config if key in of_type or looks_secret(key))

    def create(self, name: str, config: Mapping[str, str], state: str | None) -> None:
        """Create a connector. Errors: CommandFailed."""
        initial = {} if state is None else {"initial_state": state}
        self._rest.asked("POST", "/connectors", {"name": name, "config": dict(config), **initial})

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Set a connector's config. Errors: CommandFailed."""
        self._rest.asked("PUT", f"{connector_path(name)}/config", dict(config))

    def bring(self, name: str, state: str) -> None:
        """Pause, resume or stop a connector. Errors: CommandFailed."""
        self._rest.asked("PUT", f"{connector_path(name)}/{_ACTIONS[state]}")

    def delete(self, name: str) -> None:
        """Delete a connector. Errors: CommandFailed."""
        self._rest.asked("DELETE", connector_path(name))
