"""Settings as authors of connectors over records declare them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from headrace.config import settings as config
from headrace.config.settings import REQUIRED, Importance, Password, Settings, Type
from headrace.config.validators import OneOf

_TYPES: Final = {bool: Type.BOOLEAN, int: Type.LONG, float: Type.DOUBLE, str: Type.STRING, list: Type.LIST}


@dataclass(frozen=True)
class Setting:
    """One setting of a plugin: `Setting("url")` must be given, `Setting("limit", 100)` need not."""

    name: str
    default: Any = REQUIRED
    type: type[bool | int | float | str | list[str]] | None = None
    """None: the default's, or a text."""
    doc: str = ""
    secret: bool = False
    """Never shown, not in logs either."""
    one_of: Sequence[str] = ()
    """The values that it may have."""

    def declared(self) -> config.Setting:
        """Return it as the worker declares settings. Errors: TypeError for a type that settings do not have."""
        importance = Importance.HIGH if self.default is REQUIRED else Importance.MEDIUM
        validator = OneOf(*self.one_of) if self.one_of else None
        return config.Setting(self.name, self._type(), self.default, validator, importance, self.doc)

    def _type(self) -> Type:
        if self.secret:
            return Type.PASSWORD
        kind = self.type or (str if self.default is REQUIRED or self.default is None else type(self.default))
        if kind not in _TYPES:
            known = ", ".join(one.__name__ for one in _TYPES)
            raise TypeError(f"Setting {self.name} has the type {kind.__name__}; it may be one of {known}")
        return _TYPES[kind]


class WithSettings:
    """The part of a plugin that its author declares as a list of `Setting`."""

    settings: ClassVar[Any] = ()
    """A list of `Setting`."""
    version: ClassVar[str] = "undefined"
    config: Mapping[str, Any]
    """The values of `settings`, parsed."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if not isinstance(cls.settings, Settings):
            cls.settings = declared(cls.settings)

    def take(self, config: Mapping[str, str]) -> None:
        """Set `config`. Errors: ConfigError with all problems."""
        self.config = parsed(type(self).settings, config)


def declared(settings: Iterable[Setting | config.Setting]) -> Settings:
    """Return these settings as the worker declares them."""
    return Settings(*(one.declared() if isinstance(one, Setting) else one for one in settings))


def parsed(settings: Settings, config: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a config, secrets in the clear. Errors: ConfigError with all problems."""
    values = settings.parse(config)
    return {name: value.value if isinstance(value, Password) else value for name, value in values.items()}
