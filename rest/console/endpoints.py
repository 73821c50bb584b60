"""Calls the endpoints of the REST API in this process, as the user who asked for the page."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

from fastapi import Depends, Request
from starlette.types import ASGIApp, Message

from headrace.rest.security.principal import principal_of, set_principal
from headrace.worker.herder.rest_paths import connector_path

log = logging.getLogger(__name__)

_KEPT: Final = ("type", "asgi", "http_version", "scheme", "client", "server", "root_path")
"""The members of the page's scope that its calls have, too."""
_OF_BODIES: Final = (b"accept", b"accept-encoding", b"content-encoding", b"content-length", b"content-type")

_PREVIEWED: Final = 10
_LOG_LINES: Final = 200
_LETTERS: Final = 50


@dataclass(frozen=True)
class Answer:
    """An endpoint's answer."""

    status: int
    body: Any
    """The JSON; None if there is none."""

    @property
    def ok(self) -> bool:
        """True unless it was refused or failed."""
        return self.status < 400

    @property
    def is_absent(self) -> bool:
        """True if this worker has no such endpoint, or the user lacks the right to it."""
        return self.status in (403, 404)

    @property
    def message(self) -> str:
        """The error's message; empty if it was done."""
        return "" if self.ok else str(self.get("message") or f"HTTP {self.status}")

    def get(self, member: str, default: Any = None) -> Any:
        """A member of the answer's object, also of an error's; the default if it has none."""
        return self.body.get(member, default) if isinstance(self.body, dict) else default


class Endpoints:
    """The endpoints, with the rights of one request."""

    def __init__(self, app: ASGIApp, request: Request) -> None:
        self._app = app
        self._request = request

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Answer:
        """Asks an endpoint; `path` is percent-encoded."""
        sent = b"" if body is None else json.dumps(body).encode()
        answered: dict[str, Any] = {"status": 500, "parts": []}
        waiting = [{"type": "http.request", "body": sent, "more_body": False}]

        async def receive() -> Message:
            return waiting.pop() if waiting else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered["status"] = message["status"]
            else:
                answered["parts"].append(message.get("body", b""))

        try:
            await self._app(self._scope(method, path, urlencode(query), sent), receive, send)
        except Exception:  # it has been answered with 500
            log.exception("%s %s failed, asked by the console", method, path)
        return Answer(answered["status"], _parsed(b"".join(answered["parts"])))

    def _scope(self, method: str, path: str, query: str, sent: bytes) -> dict[str, Any]:
        outer = self._request.scope
        headers = [(name, value) for name, value in outer["headers"] if name not in _OF_BODIES]
        headers += [(b"accept", b"application/json")]
        if sent:
            headers += [(b"content-type", b"application/json"), (b"content-length", str(len(sent)).encode())]
        scope: dict[str, Any] = {name: outer[name] for name in _KEPT if name in outer}
        scope |= {"method": method, "path": path, "raw_path": path.encode(), "headers": headers, "state": {}}
        scope["query_string"] = query.encode()
        set_principal(scope, principal_of(outer))
        return scope

    async def of(self, connector: str, what: str = "", method: str = "GET", body: Any = None, **query: Any) -> Answer:
        """Asks an endpoint of a connector; `what` is the rest of its path."""
        return await self.ask(method, f"{connector_path(connector)}{what}", body, **query)

    async def validate(self, config: Mapping[str, str | None]) -> Answer:
        """The declarations of a config's settings, with what is wrong with its values."""
        return await self.ask("PUT", f"{_plugin_path(config)}/config/validate", config)

    async def lint_of_new(self, config: Mapping[str, str | None]) -> Answer:
        """The findings of the lint of a config that may exist nowhere yet."""
        return await self.ask("PUT", f"{_plugin_path(config)}/config/lint", config)

    async def preview_of_new(self, config: Mapping[str, str | None]) -> Answer:
        """A preview of the first records of a connector with this config."""
        return await self.ask("PUT", f"{_plugin_path(config)}/config/preview", config, records=_PREVIEWED)

    async def preview(self, connector: str, changed: Mapping[str, str | None]) -> Answer:
        """A preview of the connector's next records with these changes, beside those of its present config."""
        return await self.of(connector, "/preview", "POST", changed, records=_PREVIEWED, diff="true")

    async def logs(self, connector: str) -> Answer:
        """The last log lines of the connector."""
        return await self.of(connector, "/logs", lines=_LOG_LINES)

    async def offsets_at(self, connector: str, time: str) -> Answer:
        """The offsets of a sink's partitions at a time, in ISO 8601."""
        return await self.of(connector, "/offsets/at", time=time)

    async def dead_letters(self, connector: str, before: str) -> Answer:
        """The newest dead letters, or those before a page of newer ones."""
        query = {"before": before} if before else {}
        return await self.of(connector, "/dead-letters", limit=_LETTERS, **query)

    async def replay(self, connector: str, record: str, cause: str) -> Answer:
        """Sends dead letters to where they came from: one, as `partition:offset`, those with a cause, or all."""
        partition, _, offset = record.partition(":")
        body: dict[str, Any] = {"records": [{"partition": partition, "offset": offset}]} if record else {}
        return await self.of(connector, "/dead-letters/replay", "POST", body | ({"cause": cause} if cause else {}))

    async def delete_dead_letters(self, connector: str) -> Answer:
        """Deletes all dead letters of the connector."""
        return await self.of(connector, "/dead-letters", "DELETE", upto="all")

    async def set_level(self, logger: str, level: str, scope: str) -> Answer:
        """Sets the level of a logger, on this worker or on all (`cluster`)."""
        return await self.ask("PUT", f"/admin/loggers/{quote(logger, safe='')}", {"level": level}, scope=scope)


def _plugin_path(config: Mapping[str, str | None]) -> str:
    return f"/connector-plugins/{quote(config.get('connector.class') or '', safe='')}"


async def _endpoints(request: Request) -> Endpoints:
    return Endpoints(request.app.state.endpoints, request)


EndpointsOf = Annotated[Endpoints, Depends(_endpoints)]
"""The endpoints as this request's user may call them."""


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None
