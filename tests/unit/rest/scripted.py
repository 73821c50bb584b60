"""A herder that says what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.config.worker.listeners import Listener
from headrace.rest.app import admin_app, app
from headrace.rest.connections import ConnectionLimits
from headrace.rest.security.principal import Principal, set_principal
from headrace.rest.server import HttpServer
from headrace.worker.errors import NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.process_metrics import ProcessMetrics
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.tasks.metrics import TasksMetrics

FREE = Listener("http", "127.0.0.1", 0)


class Named:
    """Stands in for a login: a request is of the user and the group that its headers name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if "x-user" in headers:
            groups = frozenset(filter(None, [headers.get("x-group")]))
            set_principal(scope, Principal(headers["x-user"], groups))
        await self._app(scope, receive, send)


class KnownPlugins:
    """Knows one sink, with one setting that is declared secret and one that only sounds so."""

    def kind(self, name: str) -> str | None:
        return "sink" if name == "Known" else None

    def settings(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        if plugin != "Known":
            raise NotFound(f"Unknown plugin {plugin}.")
        return [{"name": "pin", "type": "PASSWORD"}, {"name": "secret.count", "type": "INT"}]


class ScriptedPreviews:
    """Previews as the script says."""

    def __init__(self, asked: list[tuple[Any, ...]], script: Mapping[str, Any]) -> None:
        self._asked, self._script = asked, script

    def preview(self, *arguments: Any) -> Any:
        self._asked.append(("preview", *arguments))
        answer = self._script.get("preview")
        if isinstance(answer, Exception):
            raise answer
        return answer


def scripted(answers: Mapping[str, Any] | None = None) -> Any:
    """A herder that answers each method by what stands under its name: a value, an error to raise or a function.

    Its `asked` has each call as (method, arguments...).
    """
    asked: list[tuple[Any, ...]] = []
    script = dict(answers or {})

    def method(name: str) -> Callable[..., Any]:
        def called(_: Any, *args: Any, **named: Any) -> Any:
            if name != "check_known":  # every request about connectors asks that
                asked.append((name, *args, *named.values()))
            answer = script.get(name)
            if isinstance(answer, Exception):
                raise answer
            return answer(*args, **named) if callable(answer) else answer

        return called

    members: dict[str, Any] = {name: method(name) for name in Herder.__abstractmethods__}
    members["cluster_id"] = property(lambda _: script.get("cluster_id"))
    herder = type("Scripted", (Herder,), members)(KnownPlugins(), ScriptedPreviews(asked, script))
    herder.asked = asked
    herder.script = script
    return herder


@contextmanager
def serving(
    herder: Any,
    settings: Mapping[str, Any] | None = None,
    forwards: bool = True,
    admin: bool = False,
    tasks: TasksMetrics | None = None,
    limits: ConnectionLimits | None = None,
    around: Callable[[ASGIApp], ASGIApp] = lambda made: made,
    executors_trouble: str | None = None,
) -> Iterator[httpx.Client]:
    """A client of a server over this herder and the metrics of these tasks; `around` is a layer outside all others."""
    server = HttpServer([FREE], limits=limits)
    process = ProcessMetrics(lambda: executors_trouble)
    metrics = WorkerMetrics(herder, "here:8083", tasks or TasksMetrics(), StartupCounter(), process=process)
    with RestClient(answer_seconds=5) as client:
        made = (admin_app if admin else app)(herder, metrics, settings or {}, client if forwards else None)
        server.start(around(made))
        try:
            with httpx.Client(base_url=str(server.bound[0]), timeout=60) as http:
                yield http
        finally:
            server.stop()
