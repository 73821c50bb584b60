"""What stands before the routes: the ways to log in, and the layers and routes of REST extensions.

It is made before the worker starts, and refuses the start where the settings cannot protect it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from headrace.config.problems import ConfigError
from headrace.config.worker.login_settings import EXTENSIONS
from headrace.rest.body_sum import BodySum
from headrace.rest.security.extensions import ExtensionContext, registered
from headrace.rest.security.ways import BASIC_AUTH, BASIC_AUTH_NAMES, Ways, without_certificates


@dataclass(frozen=True)
class Entrance:
    """Shared by all listeners; without ways everybody comes in."""

    ways: Ways | None = None
    added: ExtensionContext = field(default_factory=lambda: ExtensionContext({}))
    """What extensions have added."""
    bodies: BodySum = field(default_factory=BodySum)

    @classmethod
    def of(cls, settings: Mapping[str, Any], props: Mapping[str, str], environment: Mapping[str, str]) -> Self:
        """As the settings and properties of a worker, and the environment of its process, have it.

        Errors: ConfigError with what to do.
        """
        if problems := without_certificates(settings, props):
            raise ConfigError(problems)
        names = [name for name in settings.get(EXTENSIONS) or () if name not in BASIC_AUTH_NAMES]
        added = registered(names, [BASIC_AUTH], props)
        return cls(Ways.of(settings, environment), added)

    @property
    def needs_login(self) -> bool:
        """Whether requests need a login, as far as is known: an extension may ask for one."""
        return self.ways is not None or bool(self.added.layers)

    def stop(self) -> None:
        """End their threads."""
        if self.ways is not None:
            self.ways.stop()


OPEN: Final = Entrance()
"""Without login."""
