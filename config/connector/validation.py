"""Connect's result of validating a connector's config: all settings, their values and errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.config.connector.config import framework_settings
from headrace.config.connector.enrichment import PluginClass
from headrace.config.connector.unknown_settings import UnknownSetting
from headrace.config.problems import Problem
from headrace.config.settings import Settings, SettingValue

_TAIL: Final = (
    "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
)


@dataclass
class ValidatedSide:
    """The settings of one part (framework and connector, a converter, overrides), and its values by name."""

    settings: Settings
    values: dict[str, SettingValue]
    counts_messages: bool = False

    @property
    def error_count(self) -> int:
        """Connect's count: messages for framework and connector, values with errors for converters and overrides."""
        errors = [len(value.errors) for value in self.values.values()]
        return sum(errors) if self.counts_messages else sum(1 for count in errors if count)

    def add(self, key: str, given: str | None, message: str) -> None:
        """Adds an error to a setting, which need not be declared."""
        self.values.setdefault(key, SettingValue(key, given)).errors.append(message)


@dataclass(frozen=True)
class Validation:
    """The result of a validation."""

    name: str
    parts: Sequence[ValidatedSide] = field(repr=False)
    unread: Sequence[UnknownSetting] = ()
    """The first settings that nothing reads."""

    @property
    def error_count(self) -> int:
        """The number of errors, by Connect's count."""
        return sum(part.error_count for part in self.parts)

    @property
    def problems(self) -> list[Problem]:
        """All errors as problems with remedies."""
        found = []
        for part in self.parts:
            for name, value in part.values.items():
                shown = value.value_info()["value"]
                remedy = part.settings[name].remedy() if name in part.settings else ""
                found += [Problem(name, shown, message, remedy) for message in value.errors]
        return found

    def refusal(self) -> str | None:
        """The message of the 400 that refuses the connector; None if its config is right."""
        if not self.error_count:
            return None
        head = f"Connector configuration is invalid and contains the following {self.error_count} error(s):"
        messages = [message for part in self.parts for _, value in _entries(part) for message in value.errors]
        return "\n".join([head, *messages, _TAIL])

    def infos(self) -> dict[str, Any]:
        """Connect's ConfigInfos."""
        groups = dict.fromkeys(group for part in self.parts for group in part.settings.groups())
        configs = [
            {
                "definition": part.settings[name].key_info() if name in part.settings else None,
                "value": value.value_info(),
            }
            for part in self.parts
            for name, value in _entries(part)
        ]
        return {"name": self.name, "error_count": self.error_count, "groups": list(groups), "configs": configs}


def _entries(part: ValidatedSide) -> list[tuple[str, SettingValue]]:
    """The part's values; for framework and connector undeclared ones come first, else last."""
    defined = [(setting.name, part.values[setting.name]) for setting in part.settings if setting.name in part.values]
    rest = [(name, value) for name, value in part.values.items() if name not in part.settings]
    return rest + defined if part.counts_messages else defined + rest


def plugin_config(plugin: PluginClass) -> list[dict[str, Any]]:
    """The answer of `GET /connector-plugins/{plugin}/config`: the plugin's own settings, then the framework's."""
    own: Settings = plugin.load().settings
    if plugin.kind not in ("source", "sink"):
        return [setting.key_info() for setting in own]
    framework = framework_settings(plugin.kind).changed("connector.plugin.version", default=plugin.version)
    rest = [setting for setting in framework if setting.name not in own]
    return [setting.key_info() for setting in (*own, *rest)]
