"""Prints records of a topic, one a line, with their bytes shown by a converter or by a guess."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from headrace.config.connector.config import ConverterConfig, converter_config
from headrace.plugins.interop.discovery import Plugins
from headrace.worker.kafka.record_text import RecordText, printable, text_of
from headrace.worker.kafka.topic_reading import headers_of

_REGISTERED: Final = {
    "Avro": "io.confluent.connect.avro.AvroConverter",
    "Protobuf": "io.confluent.connect.protobuf.ProtobufConverter",
    "JSON Schema": "io.confluent.connect.json.JsonSchemaConverter",
}
"""The converters of bytes that name a schema in a registry, by the kind of the schema."""
_PREFIX: Final = 5
"""Confluent's bytes before a value: zero and the schema's id."""


class Guessed:
    """Shows bytes as what they look like."""

    def __init__(self, registered: Mapping[str, RecordText]) -> None:
        self._registered = registered

    def __call__(self, data: bytes | None) -> tuple[str | None, str]:
        """The text, and its kind."""
        if data is None:
            return None, "null"
        if len(data) > _PREFIX and data[0] == 0:
            if not self._registered:
                return text_of(data, None), "bytes that may have a schema in a registry (--registry)"
            for kind, converter in self._registered.items():
                if (found := converter.converted(data)) is not None:
                    return found, kind
        text = text_of(data, None)
        try:
            json.loads(data)
        except (ValueError, RecursionError):
            return text, "bytes" if text is not None and text.startswith("0x") else "text"
        return text, "JSON"


class Converted:
    """Shows bytes by a converter."""

    def __init__(self, name: str, converter: RecordText) -> None:
        self._name, self._converter = name.rpartition(".")[2], converter

    def __call__(self, data: bytes | None) -> tuple[str | None, str]:
        """The text, and its kind."""
        if data is None:
            return None, "null"
        found = self._converter.converted(data)
        return (text_of(data, None), f"not {self._name}") if found is None else (found, self._name)


@contextmanager
def side_of(side: str, settings: Mapping[str, str], registry: str | None) -> Iterator[Guessed | Converted]:
    """Yield what shows keys or values. Errors: ConfigError."""
    plugins = Plugins.discover()
    named = converter_config(side, settings, {})
    if named.class_name:
        with closing(RecordText.of(named, plugins)) as converter:
            converter.longest = None
            yield Converted(named.class_name, converter)
    elif registry is None:
        yield Guessed({})
    else:
        props = {**named.props, "schema.registry.url": registry}
        with ExitStack() as stack:
            made = {kind: RecordText.of(ConverterConfig(name, props), plugins) for kind, name in _REGISTERED.items()}
            for converter in made.values():
                stack.enter_context(closing(converter))
                converter.longest = None
            yield Guessed(made)


@dataclass
class RecordLines:
    """Prints records, and counts what their bytes were shown as."""

    topic: str
    key: Guessed | Converted
    value: Guessed | Converted
    as_json: bool
    limit: int | None
    count: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def is_full(self) -> bool:
        """True if no more records are wanted."""
        return self.limit is not None and self.count >= self.limit

    def show(self, message: Any) -> None:
        """Print one record in a line."""
        key, key_as = self.key(message.key())
        value, value_as = self.value(message.value())
        found = headers_of(message)
        headers = None if found is None else [(name, text_of(data, None)) for name, data in found]
        kind, stamp = message.timestamp()
        self.count += 1
        self.kinds.update({f"keys: {key_as}": 1, f"values: {value_as}": 1})
        if self.as_json:
            told = {
                "topic": message.topic(),
                "partition": message.partition(),
                "offset": message.offset(),
                "timestamp": stamp if kind else None,
                "key": key,
                "key_as": key_as,
                "value": value,
                "value_as": value_as,
                "headers": None if headers is None else [{"key": name, "value": text} for name, text in headers],
            }
            sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
        else:
            at = datetime.fromtimestamp(stamp / 1000, UTC).isoformat(timespec="milliseconds") if kind else "-"
            parts = [f"{message.partition()}:{message.offset()}", at, f"key={_word(key)}", _word(value)]
            if message.value() is None:
                parts[-1] = "null (a tombstone)" if key is not None else "null"
            if headers is None:
                parts.append("(headers with a name that is not UTF-8)")
            elif headers:
                parts.append(json.dumps(dict(headers), ensure_ascii=False))
            sys.stdout.write(printable("  ".join(parts)) + "\n")
        sys.stdout.flush()

    def tell(self) -> None:
        """Say on standard error what was shown."""
        kinds = ", ".join(f"{kind} ({count})" for kind, count in sorted(self.kinds.items()) if "null" not in kind)
        sys.stderr.write(printable(f"{self.count} records of {self.topic}; {kinds or 'nothing to guess'}") + "\n")


def _word(text: str | None) -> str:
    return "null" if text is None else text
