"""A cluster as its REST API shows and changes it, for the commands that compare it with files."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from headrace.config.values import looks_secret, without_login

_TIMEOUT_S: Final = 100.0
"""Exceeds the 90 s after which a worker answers that a request timed out."""
_ACTIONS: Final = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}


class ClusterError(Exception):
    """The cluster did not do what a command asked; `code` is the command's exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Login:
    """The way to a worker; what is None is not sent."""

    url: str = "http://127.0.0.1:8083"
    user: str | None = None
    """`name:password`."""
    token: str | None = None
    cacert: Path | None = None
    cert: Path | None = None
    """The client's certificate and its key, in PEM."""


@dataclass(frozen=True)
class Present:
    """A connector of the cluster."""

    config: Mapping[str, str]
    state: str
    """RUNNING, PAUSED or STOPPED: what it is to be, as far as its status tells."""


class ClusterRest:
    """The REST API of a cluster's worker."""

    def __init__(self, login: Login) -> None:
        """Errors: ClusterError for files that cannot be read."""
        self._shown = without_login(login.url.rstrip("/"))
        headers = {} if login.token is None else {"Authorization": f"Bearer {login.token}"}
        auth = None if login.user is None else httpx.BasicAuth(*_pair(login.user))
        self._http = httpx.Client(
            base_url=login.url.rstrip("/"), headers=headers, auth=auth, timeout=_TIMEOUT_S, verify=_trusted(login)
        )

    def connectors(self) -> dict[str, Present]:
        """List all connectors that may be seen. Errors: ClusterError."""
        infos = self._asked("GET", "/connectors?expand=info")
        statuses = self._asked("GET", "/connectors?expand=status")
        found = {}
        for name, one in infos.items():
            config = one["info"]["config"]
            if not config:
                raise ClusterError(f"the config of connector {name} is not shown: it needs the right view_config")
            state = statuses.get(name, {}).get("status", {}).get("connector", {}).get("state", "RUNNING")
            present = {key: value for key, value in config.items() if value is not None}
            found[name] = Present(present, state if state in _ACTIONS else "RUNNING")
        return found

    def problems(self, config: Mapping[str, str]) -> list[str]:
        """List what a validation of the config finds. Errors: ClusterError."""
        plugin = quote(config.get("connector.class", ""), safe="")
        if not plugin:
            return ["connector.class: it is missing"]
        found = self._asked("PUT", f"/connector-plugins/{plugin}/config/validate", dict(config))
        values = [one["value"] for one in found["configs"]]
        return [f"{value['name']}: {error}" for value in values for error in value["errors"]]

    def secrets(self, config: Mapping[str, str]) -> frozenset[str]:
        """Name the settings of a config that are secrets, by their declaration or their name."""
        plugin = quote(config.get("connector.class", ""), safe="")
        try:
            declared = self._asked("GET", f"/connector-plugins/{plugin}/config") if plugin else []
        except ClusterError:  # a plugin that the cluster does not have: the names decide
            declared = []
        of_type = {one["name"] for one in declared if one["type"] == "PASSWORD"}
        return frozenset(key for key in config if key in of_type or looks_secret(key))

    def create(self, name: str, config: Mapping[str, str], state: str | None) -> None:
        """Create a connector. Errors: ClusterError."""
        initial = {} if state is None else {"initial_state": state}
        self._asked("POST", "/connectors", {"name": name, "config": dict(config), **initial})

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Set a connector's config. Errors: ClusterError."""
        self._asked("PUT", f"{_path(name)}/config", dict(config))

    def bring(self, name: str, state: str) -> None:
        """Pause, resume or stop a connector. Errors: ClusterError."""
        self._asked("PUT", f"{_path(name)}/{_ACTIONS[state]}")

    def delete(self, name: str) -> None:
        """Delete a connector. Errors: ClusterError."""
        self._asked("DELETE", _path(name))

    def _asked(self, method: str, path: str, body: Any = None) -> Any:
        try:
            answer = self._http.request(method, path, json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ClusterError(f"no worker answers at {self._shown}: {error}; --url names another", 3) from error
        try:
            said: Any = answer.json() if answer.content else None
            if answer.is_error:
                raise ClusterError(f"the worker at {self._shown} answers {answer.status_code}: {said['message']}")
        except (ValueError, KeyError, TypeError) as error:
            text = f"what answers at {self._shown} is no worker: {answer.status_code} {answer.text[:100]!r}"
            raise ClusterError(f"{text}; --url names another", 3) from error
        return said


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


def _pair(user: str) -> tuple[str, str]:
    name, colon, password = user.partition(":")
    if not colon:
        raise ClusterError("--user: write NAME:PASSWORD", 2)
    return name, password


def _trusted(login: Login) -> ssl.SSLContext | bool:
    if login.cacert is None and login.cert is None:
        return True
    try:
        context = ssl.create_default_context(cafile=login.cacert)
        if login.cert is not None:
            context.load_cert_chain(login.cert)
    except OSError as error:
        raise ClusterError(f"--cacert or --cert cannot be read: {error.strerror or error}", 2) from error
    return context
