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
    """How much a setting matters, by Connect's name; declared in falling order."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(StrEnum):
    """How wide a field for the setting should be, by Connect's name."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""The default of a setting that has none and must be given."""


class Recommender(Protocol):
    """Says which values suit a setting, and whether it should be shown, given the others."""

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """Values to offer; others stay allowed."""

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """Whether the setting matters now."""


@dataclass(frozen=True)
class Offer:
    """Recommends the same values always; shown always, or only where the setting `beside` it has a value."""

    values: tuple[Any, ...] = ()
    beside: str | None = None

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """The values."""
        return self.values

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """Whether the setting beside it has a value."""
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
    """For the type CLASS: whether it names a plugin that the worker looks up; else its validator judges the name."""

    @property
    def required(self) -> bool:
        """Whether it has no default."""
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
        """Its value among `values` with everything that Connect finds wrong with it.

        As in Java the validator also runs on the null that a value which cannot be read leaves behind, and so adds a
        second message; a value that can be read but is not valid stays.
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
        """The advice for a value that is missing or wrong."""
        wanted = str(self.validator) if self.validator is not None else f"a value of type {self.type}"
        if self.required:
            return f"Set {self.name} to {wanted}." + (f" {self.documentation}" if self.documentation else "")
        default = as_text(self._secretive(self.default))
        rest = "none is needed" if default is None else f"the default is {default!r}"
        return f"Set {self.name} to {wanted}, or remove it: {rest}."


@dataclass
class SettingValue:
    """The outcome of validation for one key; `value` is parsed."""

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
        """Both; where a name is in both, the right one in the left one's place."""
        return Settings(*(self._by_name | {setting.name: setting for setting in other}).values())

    def without(self, *names: str) -> Settings:
        """All but these."""
        return Settings(*(setting for setting in self if setting.name not in names))

    def changed(self, name: str, **fields: Any) -> Settings:
        """With other fields in one setting."""
        return Settings(*(replace(s, **fields) if s.name == name else s for s in self))

    def prefixed(self, prefix: str) -> Settings:
        """The same settings under longer names; their validators speak of the names as declared."""
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
        """Prefixed and put into a group of their own, numbered from `order`, in the order of Java's `embed`."""
        ranked = sorted(self, key=_embedding_rank(self))
        return Settings(
            *(
                replace(setting, group=group + (f": {setting.group}" if setting.group else ""), order=number)
                for number, setting in enumerate(Settings(*ranked).prefixed(prefix), order)
            )
        )

    def groups(self) -> list[str]:
        """The groups in the order in which they first appear."""
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
        """One problem per setting that is wrong: the first message, and the remedy."""
        return self._problems(values, self._judged(values, classes))

    def parse(self, values: Mapping[str, Any], classes: ClassNames | None = None) -> dict[str, Any]:
        """Every setting's value; keys that are not declared are left out.

        Errors: ConfigError with all problems.
        """
        judged = self._judged(values, classes)
        if problems := self._problems(values, judged):
            raise ConfigError(problems)
        defaults = {name: absent.value for name, absent in self._absent.items()}
        return defaults | {name: found.value for name, found in judged.items()}

    def mask(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values as they may be shown: those declared secret, or undeclared and named like one, hidden."""
        return {name: HIDDEN if value is not None and self._secret(name) else value for name, value in values.items()}

    @cached_property
    def _absent(self) -> Mapping[str, SettingValue]:
        """The answer for each setting that is not given: always the same, and most are not given."""
        return {setting.name: setting.judge({}) for setting in self}

    def _judged(self, values: Mapping[str, Any], classes: ClassNames | None) -> dict[str, SettingValue]:
        """The settings that are given, and those that are wrong because they are not."""
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
