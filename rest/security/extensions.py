"""REST extensions in Python, by the names of their entry points in `rest.extension.classes`.

    [project.entry-points."headrace.rest_extension"]
    "org.example.Tracing" = "my_package:Tracing"

    class Tracing:
        def register(self, context):
            context.add_layer(TracingLayer)           # around all routes, outside the login
            context.add_routes(router)                # a FastAPI APIRouter; needs the login, and no right

A layer that authenticates calls `set_principal` of `rest/security/principal.py`; the worker's login then accepts that
principal. It must let requests pass for which `is_internal` of `rest/security/login.py` is true.

Decided: an unknown class refuses the start, because most Java extensions check logins, and the worker would be open
without them; loses: an extension that only observes has to be removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, Protocol

from headrace.config.problems import ConfigError, Problem
from headrace.config.worker.login_settings import EXTENSIONS

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.types import ASGIApp

_GROUP: Final = "headrace.rest_extension"


@dataclass
class ExtensionContext:
    """The worker's properties, and the layers and routes that extensions add."""

    settings: Mapping[str, str] = field(repr=False)
    """The worker's properties as given."""
    layers: list[Callable[[ASGIApp], ASGIApp]] = field(default_factory=list)
    routers: list[APIRouter] = field(default_factory=list)

    def add_layer(self, layer: Callable[[ASGIApp], ASGIApp]) -> None:
        """Puts an ASGI layer around the login and all routes; the last one added is the outermost."""
        self.layers.append(layer)

    def add_routes(self, router: APIRouter) -> None:
        """Adds routes after the worker's own."""
        self.routers.append(router)


class RestExtension(Protocol):
    """An extension; constructed without arguments."""

    def register(self, context: ExtensionContext) -> None:
        """Adds layers and routes; called once, before requests are answered."""


def registered(names: Sequence[str], built_in: Sequence[str], props: Mapping[str, str]) -> ExtensionContext:
    """The layers and routes of the extensions with these names; `built_in`: further names to list in an error.

    Errors: ConfigError if one is not installed, cannot be loaded or raises.
    """
    installed = {entry.name: entry for entry in entry_points(group=_GROUP)}
    context = ExtensionContext(props)
    problems = []
    for name in names:
        if name not in installed:
            problems.append(_unknown(name, [*built_in, *sorted(installed)]))
            continue
        try:
            extension: RestExtension = installed[name].load()()
            extension.register(context)
        except Exception as error:
            why = f"The extension cannot be loaded: {type(error).__name__}: {error}."
            problems.append(Problem(EXTENSIONS, name, why, f"Mend {installed[name].value}, or remove it."))
    if problems:
        raise ConfigError(problems)
    return context


def _unknown(name: str, there: Sequence[str]) -> Problem:
    message = (
        "No REST extension of this name is installed; those of Java are not loaded. One that checks logins would be "
        "missing, and the REST API open to all who reach it."
    )
    remedy = (
        f"There is {', '.join(there)}; rest.bearer.jwks.endpoint.url takes bearer tokens, and rest.client.certificate."
        "login certificates. Else put a proxy that checks logins before listeners=http://127.0.0.1:8083, and remove it."
    )
    return Problem(EXTENSIONS, name, message, remedy)
