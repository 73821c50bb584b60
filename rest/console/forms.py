"""Forms of configs, from the declarations of plugins: groups, values, documentation, and what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import javaproperties

from headrace.config.values import HIDDEN
from headrace.worker.errors import BadRequest

PREFIX: Final = "c."
"""Begins the names of the fields that are settings."""
_REMOVED: Final = "remove."
_OTHERS: Final = "others"
_FIXED: Final = ("name", "connector.class")
"""Settings without a field in the groups."""
_FIRST: Final = "Common"
_LAST: Final = ("Transforms", "Predicates", "Error Handling", "Topic Creation", "Exactly Once Support", "offsets.topic")
"""Groups of every connector; a plugin's own stand before them."""
_OWN: Final = "Settings of this connector"


@dataclass(frozen=True)
class Field:
    """A setting of the form."""

    name: str
    label: str
    kind: str
    """`text`, `lines`, `flag`, `number` or `secret`."""
    value: str
    """Empty if the config does not have it, or if it is a secret."""
    is_set: bool
    default: str | None
    documentation: str
    is_required: bool
    importance: str
    choices: Sequence[str]
    errors: Sequence[str]

    @property
    def is_open(self) -> bool:
        """True if it is to be seen at once."""
        return bool(self.is_set or self.errors or self.is_required or self.importance == "HIGH")


@dataclass(frozen=True)
class Group:
    """Fields that belong together."""

    name: str
    fields: Sequence[Field]

    @property
    def is_open(self) -> bool:
        """True if one of its fields is to be seen at once."""
        return any(field.is_open for field in self.fields)

    @property
    def count_set(self) -> int:
        """The fields that the config has."""
        return sum(field.is_set for field in self.fields)


@dataclass(frozen=True)
class Form:
    """A config in a form."""

    groups: Sequence[Group]
    others: str
    """The settings that nothing declares, as lines of a properties file."""
    errors: Sequence[str]
    """Faults of settings that have no field."""
    error_count: int


def form_of(shown: Mapping[str, str | None], validated: Any, *, told: bool) -> Form:
    """The form of a config without secrets, and the outcome of its validation; `told`: errors are shown.

    `validated`: the body of a validation's answer; without one all settings are lines.
    """
    infos = validated.get("configs", ()) if isinstance(validated, dict) else ()
    fields: dict[str, list[Field]] = {}
    declared: set[str] = set(_FIXED)
    loose: list[str] = []
    for info in infos:
        definition, value = info["definition"], info["value"]
        if definition is None or value["name"] in _FIXED:
            loose += value["errors"]
            continue
        if not value["visible"] and value["name"] not in shown:
            continue
        declared.add(value["name"])
        fields.setdefault(definition["group"] or _OWN, []).append(_field(definition, value, shown, told))
    groups = sorted((Group(name, found) for name, found in fields.items()), key=_place)
    others = {key: value for key, value in shown.items() if key not in declared and value is not None}
    count = validated.get("error_count", 0) if isinstance(validated, dict) else 0
    return Form(groups, _as_lines(others), loose if told else (), count if told else 0)


def _place(group: Group) -> int:
    if group.name == _FIRST:
        return 0
    return 2 if group.name.partition(":")[0] in _LAST else 1


def _field(
    definition: Mapping[str, Any], value: Mapping[str, Any], shown: Mapping[str, str | None], told: bool
) -> Field:
    name = value["name"]
    given = shown.get(name)
    kinds = {"BOOLEAN": "flag", "PASSWORD": "secret"}
    kind = "secret" if given == HIDDEN else kinds.get(definition["type"], "text")
    if kind == "text" and "\n" in (given or ""):
        kind = "lines"
    return Field(
        name=name,
        label=definition.get("display_name") or name,
        kind=kind,
        value="" if kind == "secret" else given or "",
        is_set=given is not None,
        default=None if kind == "secret" else definition.get("default_value"),
        documentation=definition.get("documentation") or "",
        is_required=bool(definition.get("required")),
        importance=definition.get("importance") or "",
        choices=[str(one) for one in value["recommended_values"] if one is not None],
        errors=value["errors"] if told else (),
    )


def _as_lines(config: Mapping[str, str]) -> str:
    return "".join(
        f"{javaproperties.join_key_value(key, value, ensure_ascii=False)}\n" for key, value in sorted(config.items())
    )


def field_in(fields: Iterable[tuple[str, str]], name: str) -> str:
    """The value of a form's first field of this name; empty without one."""
    return next((value for field, value in fields if field == name), "")


def config_in(fields: Iterable[tuple[str, str]], shown: Mapping[str, str | None]) -> dict[str, str]:
    """The config that a form has; `shown` is the present one without secrets.

    An empty field is a setting that the config does not have; an empty secret keeps its present value, as `[hidden]`.
    Errors: BadRequest.
    """
    sent = list(fields)
    removed = {name.removeprefix(_REMOVED) for name, _ in sent if name.startswith(_REMOVED)}
    config = dict(_given(sent, shown, removed))
    for name, value in sent:
        if name == _OTHERS:
            config |= _in_lines(value)
    return config


def _given(
    sent: Iterable[tuple[str, str]], shown: Mapping[str, str | None], removed: Collection[str]
) -> Iterator[tuple[str, str]]:
    for field, value in sent:
        name = field.removeprefix(PREFIX)
        if name == field or name in removed:
            continue
        present = shown.get(name)
        if value or present == "":
            yield name, value
        elif present == HIDDEN:
            yield name, HIDDEN


def _in_lines(text: str) -> dict[str, str]:
    try:
        return javaproperties.loads(text)
    except ValueError as error:
        raise BadRequest(f"The other settings are no lines of a properties file: {error}") from error


def restored(config: Mapping[str, str], present: Mapping[str, str | None]) -> dict[str, str | None]:
    """The config with its hidden values as the present config has them; which may be hidden itself."""
    return {key: present.get(key, HIDDEN) if value == HIDDEN else value for key, value in config.items()}


def changes(before: Mapping[str, str | None], after: Mapping[str, str]) -> dict[str, str | None]:
    """The settings of `after` that differ, and None for those that are gone; neither has secrets."""
    changed: dict[str, str | None] = {key: value for key, value in after.items() if before.get(key) != value}
    return changed | {key: None for key, value in before.items() if key not in after and value is not None}
