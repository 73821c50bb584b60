"""Apache's own plugins as a lookup, made from the recorded settings, to compare validation with Apache's answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type, Width
from headrace.config.validators import ListOf, NonEmpty, OneOf, OneOfIgnoringCase, Regex, Validator
from headrace.config.values import read

VECTORS = Path(__file__).parent / "vectors"
VERSION = "4.3.1"
ALSO_HEADERS = ("converters.", "json.JsonConverter", "storage.StringConverter")

VALIDATORS: dict[tuple[str, str], Validator] = {
    ("FileStreamSourceConnector", "topic"): NonEmpty(),
    ("RegexRouter", "regex"): Regex(),
    ("TopicNameMatches", "pattern"): Regex(),
    ("DropHeaders", "headers"): ListOf(),
    ("ValueToKey", "fields"): ListOf(),
    ("JsonConverter", "decimal.format"): OneOfIgnoringCase("NUMERIC", "BASE64"),
}


def recorded(name: str) -> Any:
    """A recording."""
    return json.loads((VECTORS / name).read_text())


def setting(class_name: str, row: Mapping[str, Any]) -> Setting:
    """A declaration from Apache's answer."""
    type_ = Type(row["type"])
    default = REQUIRED if row["required"] else read(row["name"], type_, row["default_value"])
    validator = VALIDATORS.get((class_name.rpartition(".")[2], row["name"]))
    if row["name"] == "converter.type":
        validator = OneOf("key", "value", "header")
    return Setting(
        row["name"],
        type_,
        default,
        validator,
        Importance(row["importance"]),
        "",
        row["group"],
        row["order_in_group"],
        Width(row["width"]),
        row["display_name"],
    )


@dataclass(frozen=True)
class ApachePlugin:
    """One recorded plugin of one kind."""

    class_name: str
    kind: str
    loaded: type[Any]
    version: str | None = VERSION
    from_jar: bool = False
    has_java_class: bool = True

    @property
    def versions(self) -> Sequence[ApachePlugin]:
        return (self,)

    def load(self) -> type[Any]:
        return self.loaded


class ApachePlugins:
    """The plugins of Apache 4.3.1; `known` leaves all others out, as on a worker that has only these."""

    def __init__(self, known: Sequence[str] | None = None) -> None:
        self.plugins = []
        for name, answer in recorded("plugin_configs.json").items():
            if known is not None and name not in known:
                continue
            kind = answer["type"]
            kinds = [kind]
            if kind == "header_converter" and any(part in name for part in ALSO_HEADERS):
                kinds = ["converter", "header_converter"]
            rows = [row for row in answer["config"] if kind not in ("source", "sink") or row["group"] is None]
            settings = Settings(*(setting(name, row) for row in rows))
            silent = dict.fromkeys(("configure", "check", "close"), lambda *_: None)
            answers = {"validate": lambda *_: [], "recommended": lambda *_: {}, "reads_headers": False, **silent}
            loaded = type("Recorded", (), {"settings": settings, "version": VERSION, **answers})
            if "FileStreamSource" in name:
                loaded.exactly_once_support = lambda self, config: bool(config.get("file"))
            self.plugins += [ApachePlugin(name, one, loaded) for one in kinds]

    def of_kind(self, *kinds: str) -> list[ApachePlugin]:
        return sorted((p for p in self.plugins if p.kind in kinds), key=lambda p: p.class_name)

    def beside(self, connector: object) -> ApachePlugins:
        return self

    def full_name(self, name: str) -> str | None:
        for plugin in self.plugins:
            simple = plugin.class_name.rpartition(".")[2]
            if name and name in (
                plugin.class_name,
                simple,
                simple.removesuffix("Connector"),
                simple[: -len("Converter")],
            ):
                return plugin.class_name
        outside = ("java.lang.String", "org.apache.kafka.connect.storage.Converter")
        abstract = name.startswith("org.") and any(p.class_name.startswith(f"{name}$") for p in self.plugins)
        return name if name in outside or abstract else None

    def find(self, kind: str, name: str) -> ApachePlugin:
        full = self.full_name(name)
        for plugin in self.of_kind("source", "sink"):
            if plugin.class_name == full:
                return plugin
        raise ConfigError(Problem("connector.class", name, "Failed to find any class that implements Connector"))
