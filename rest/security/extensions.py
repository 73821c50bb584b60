"""REST extensions in Python, by the names of their entry points in `rest.extension.classes`.

    [project.entry-points."headrace.rest_extension"]
    "org.example.Tracing" = "my_package:Tracing"

    class Tracing:
        def register(self, context):
            context.add_layer(TracingLayer)           # around all routes, outside the login
            context.add_routes(router)                # a FastAPI APIRouter; needs the login, and no right

A layer that finds out who asks sets that with `set_principal` of `rest/security/principal.py`; the worker's login then
takes it. It has to let pass what `is_internal` of `rest/security/login.py` tells.

Decided: a class that is not known refuses the start, because most extensions of Java's check logins, and the worker
would be open without them; loses: a setup with one that only observes has to remove it.
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
    """What an extension may use and add."""

    settings: Mapping[str, str] = field(repr=False)
    """The worker's properties as they were given."""
    layers: list[Callable[[ASGIApp], ASGIApp]] = field(default_factory=list)
    routers: list[APIRouter] = field(default_factory=list)

    def add_layer(self, layer: Callable[[ASGIApp], ASGIApp]) -> None:
        """Put an ASGI layer around the login and all routes; the one that is added last is the outermost."""
        self.layers.append(layer)

    def add_routes(self, router: APIRouter) -> None:
        """Add routes to those of the worker, after them."""
        self.routers.append(router)


class RestExtension(Protocol):
    """An extension; it is made without arguments."""

    def register(self, context: ExtensionContext) -> None:
        """Add what it has; called once, before requests are answered."""


def registered(names: Sequence[str], built_in: Sequence[str], props: Mapping[str, str]) -> ExtensionContext:
    """What the extensions of these names add; `built_in` are others that there are.

    Errors: ConfigError where one is not installed, cannot be loaded or raises.
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
