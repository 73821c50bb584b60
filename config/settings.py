"""Settings, declared once: parsing, Connect's validation answer, masking and the reference page all come from here.

SETTINGS = Settings(
    Setting("file", Type.STRING, None, importance=Importance.HIGH, documentation="…"),
    Setting("batch.size", Type.INT, 2000, Range(1)),
)
SETTINGS.parse({"batch.size": "5"})  # {"file": None, "batch.size": 5}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Protocol

from headrace.config.problems import ConfigError, Problem
from headrace.config.validators import Embedded, Validator
from headrace.config.values import HIDDEN, ClassNames, Password, Type, as_text, looks_secret, read, without_login

__all__ = [
    "REQUIRED",
    "ConfigError",
    "Importance",
    "Offer",
    "Password",
    "Problem",
    "Recommender",
    "Setting",
    "SettingValue",
    "Settings",
    "Type",
    "Width",
]


class Importance(StrEnum):
    """The importance of a setting, by Connect's name; declared in falling order."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(StrEnum):
    """The width of a form's field for the setting, by Connect's name."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""The default of a setting that must be given."""


class Recommender(Protocol):
    """Recommends values of a setting, and decides if it is shown, given the others."""

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """Values to offer; others stay allowed."""

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """True if the setting matters with these values."""


@dataclass(frozen=True)
class Offer:
    """Recommends fixed values; always shown, or only if the setting `beside` has a value."""

    values: tuple[Any, ...] = ()
    beside: str | None = None

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """The fixed values."""
        return self.values

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """True if `beside` is None or that setting has a value."""
        return self.beside is None or parsed.get(self.beside) is not None


@dataclass(frozen=True)
class Setting:
    """One setting; the default is a value of its type, None, or REQUIRED."""

    name: str
    type: Type
    default: Any = REQUIRED
    validator: Validator | None = None
    importance: Importance = Importance.LOW
    documentation: str = ""
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None
    is_plugin: bool = True
    """For the type CLASS: true if it names a plugin for the worker to look up; else the validator judges the name."""
    deprecated: str = ""
    """Advice for lint about a setting that a later version will not have; empty for others."""

    @property
    def required(self) -> bool:
        """True if the setting has no default."""
        return self.default is REQUIRED

    def key_info(self) -> dict[str, Any]:
        """Connect's ConfigKeyInfo of 4.3.1."""
        return {
            "name": self.name,
            "type": str(self.type),
            "required": self.required,
            "default_value": None if self.required else as_text(self._secretive(self.default)),
            "importance": str(self.importance),
            "documentation": self.documentation,
            "group": self.group,
            "order_in_group": self.order,
            "width": str(self.width),
            "display_name": self.display_name or self.name,
            "dependents": list(self.dependents),
        }

    def judge(self, values: Mapping[str, Any], classes: ClassNames | None = None) -> SettingValue:
        """The setting's value among `values`, with every error that Connect finds.

        As in Java, an unreadable value becomes null and the validator runs on it, so there may be a second message. A
        readable but invalid value stays.
        """
        value, errors = None, []
        if self.name in values:
            try:
                value = read(self.name, self.type, values[self.name], classes if self.is_plugin else None)
            except ValueError as e:
                errors.append(str(e))
        elif self.required:
            errors.append(f'Missing required configuration "{self.name}" which has no default value.')
        else:
            value = self._secretive(self.default)
        if self.validator is not None and (objection := self.validator(self.name, value)) is not None:
            errors.append(objection)
        return SettingValue(self.name, value, errors)

    def _secretive(self, value: Any) -> Any:
        return Password(value) if self.type is Type.PASSWORD and isinstance(value, str) else value

    def remedy(self) -> str:
        """Advice for a missing or wrong value."""
        wanted = str(self.validator) if self.validator is not None else f"a value of type {self.type}"
        if self.required:
            return f"Set {self.name} to {wanted}." + (f" {self.documentation}" if self.documentation else "")
        default = as_text(self._secretive(self.default))
        rest = "none is needed" if default is None else f"the default is {default!r}"
        return f"Set {self.name} to {wanted}, or remove it: {rest}."


@dataclass
class SettingValue:
    """The validation result of one key; `value` is parsed."""

    name: str
    value: Any
    errors: list[str] = field(default_factory=list)
    recommended_values: list[Any] = field(default_factory=list)
    visible: bool = True

    def value_info(self) -> dict[str, Any]:
        """Connect's ConfigValueInfo."""
        return {
            "name": self.name,
            "value": as_text(self.value),
            "recommended_values": [as_text(value) for value in self.recommended_values],
            "errors": list(self.errors),
            "visible": self.visible,
        }


class Settings:
    """Settings by name, in the order of their declaration; immutable."""

    def __init__(self, *settings: Setting) -> None:
        self._by_name = {setting.name: setting for setting in settings}

    def __iter__(self) -> Iterator[Setting]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Setting:
        return self._by_name[name]

    def __add__(self, other: Iterable[Setting]) -> Settings:
        """Both; if a name is in both, the right setting takes the left one's place."""
        return Settings(*(self._by_name | {setting.name: setting for setting in other}).values())

    def without(self, *names: str) -> Settings:
        """All settings but these."""
        return Settings(*(setting for setting in self if setting.name not in names))

    def changed(self, name: str, **fields: Any) -> Settings:
        """A copy with other fields in one setting."""
        return Settings(*(replace(s, **fields) if s.name == name else s for s in self))

    def prefixed(self, prefix: str) -> Settings:
        """The same settings with prefixed names; validators' messages keep the declared names."""
        return Settings(
            *(
                replace(
                    setting,
                    name=prefix + setting.name,
                    display_name=setting.display_name or setting.name,
                    validator=setting.validator and Embedded(prefix, setting.validator),
                    dependents=tuple(prefix + name for name in setting.dependents),
                )
                for setting in self
            )
        )

    def embedded(self, prefix: str, group: str, order: int) -> Settings:
        """Prefixed, in a group of their own and numbered from `order`, sorted as Java's `embed` does."""
        ranked = sorted(self, key=_embedding_rank(self))
        return Settings(
            *(
                replace(setting, group=group + (f": {setting.group}" if setting.group else ""), order=number)
                for number, setting in enumerate(Settings(*ranked).prefixed(prefix), order)
            )
        )

    def groups(self) -> list[str]:
        """The groups in order of first appearance."""
        return list(dict.fromkeys(setting.group for setting in self if setting.group))

    def validate(self, values: Mapping[str, Any], classes: ClassNames | None = None) -> dict[str, SettingValue]:
        """Each setting's value with Connect's messages, in the order of declaration."""
        found = {setting.name: setting.judge(values, classes) for setting in self}
        parsed = {name: value.value for name, value in found.items()}
        for setting in self:
            if setting.recommender is not None:
                found[setting.name].recommended_values = list(setting.recommender.valid_values(setting.name, parsed))
                found[setting.name].visible = setting.recommender.visible(setting.name, parsed)
        return found

    def problems(self, values: Mapping[str, Any], classes: ClassNames | None = None) -> list[Problem]:
        """One problem for each wrong setting: the first message, and the remedy."""
        return self._problems(values, self._judged(values, classes))

    def parse(self, values: Mapping[str, Any], classes: ClassNames | None = None) -> dict[str, Any]:
        """All settings' values; undeclared keys are left out. Errors: ConfigError with all problems."""
        judged = self._judged(values, classes)
        if problems := self._problems(values, judged):
            raise ConfigError(problems)
        defaults = {name: absent.value for name, absent in self._absent.items()}
        return defaults | {name: found.value for name, found in judged.items()}

    def mask(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values to show: those declared secret, or undeclared and named like a secret, are hidden."""
        return {name: HIDDEN if value is not None and self._secret(name) else value for name, value in values.items()}

    @cached_property
    def _absent(self) -> Mapping[str, SettingValue]:
        """The result for each setting if it is not given; cached, because most settings are not given."""
        return {setting.name: setting.judge({}) for setting in self}

    def _judged(self, values: Mapping[str, Any], classes: ClassNames | None) -> dict[str, SettingValue]:
        """The given settings, and required ones that are missing."""
        return {
            name: self[name].judge(values, classes) if name in values else absent
            for name, absent in self._absent.items()
            if name in values or absent.errors
        }

    def _problems(self, values: Mapping[str, Any], judged: Mapping[str, SettingValue]) -> list[Problem]:
        wrong = {name: found.errors[0] for name, found in judged.items() if found.errors}
        shown = {
            name: without_login(value) if isinstance(value, str) else value
            for name, value in (self.mask(values) if wrong else {}).items()
        }
        return [Problem(name, shown.get(name), text, self[name].remedy()) for name, text in wrong.items()]

    def _secret(self, name: str) -> bool:
        setting = self._by_name.get(name)
        return looks_secret(name) if setting is None else setting.type is Type.PASSWORD


def _embedding_rank(settings: Settings) -> Any:
    """Java's sort key within `embed`: group, order, no default first, importance, name."""
    groups = settings.groups()
    importances = list(Importance)

    def rank(setting: Setting) -> tuple[int, int, bool, int, str]:
        group = groups.index(setting.group) if setting.group else -1
        return group, setting.order, not setting.required, importances.index(setting.importance), setting.name

    return rank
