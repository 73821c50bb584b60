"""The layers before the routes: login, and the layers and routes of REST extensions.

It is made before the worker starts, and refuses the start if the settings cannot protect the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from headrace.config.problems import ConfigError
from headrace.config.worker.login_settings import EXTENSIONS
from headrace.rest.http.body_sum import BodySum
from headrace.rest.security.authenticators import BASIC_AUTH, BASIC_AUTH_NAMES, Authenticators, without_certificates
from headrace.rest.security.extensions import ExtensionContext, registered


@dataclass(frozen=True)
class AuthLayer:
    """Login and extensions, shared by all listeners; without `authenticators` everybody is let in."""

    authenticators: Authenticators | None = None
    added: ExtensionContext = field(default_factory=lambda: ExtensionContext({}))
    """Layers and routes of extensions."""
    bodies: BodySum = field(default_factory=BodySum)

    @classmethod
    def of(cls, settings: Mapping[str, Any], props: Mapping[str, str], environment: Mapping[str, str]) -> Self:
        """The entrance for a worker's settings and properties, and its process's environment.

        Errors: ConfigError with remedies.
        """
        if problems := without_certificates(settings, props):
            raise ConfigError(problems)
        names = [name for name in settings.get(EXTENSIONS) or () if name not in BASIC_AUTH_NAMES]
        added = registered(names, [BASIC_AUTH], props)
        return cls(Authenticators.of(settings, environment), added)

    @property
    def needs_login(self) -> bool:
        """True if requests need a login; any layer of an extension counts as one."""
        return self.authenticators is not None or bool(self.added.layers)

    def stop(self) -> None:
        """Ends the threads of the login."""
        if self.authenticators is not None:
            self.authenticators.stop()


OPEN: Final = AuthLayer()
"""No login, no extensions."""
