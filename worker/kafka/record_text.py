"""Shows the bytes of a record as text: by a converter, or as they are."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from headrace.config.connector.config import ConverterConfig, converter_config
from headrace.config.problems import ConfigError
from headrace.plugins.errors import DataError, RetriableError

if TYPE_CHECKING:  # contracts need Spark
    from headrace.plugins.contracts import Converter
    from headrace.plugins.interop.discovery import Plugins

log = logging.getLogger(__name__)

LONGEST: Final = 8_192
"""The most characters of a shown text."""
_MOST_DECODED: Final = 1 << 20
"""Larger values are not given to a converter."""


def text_of(data: bytes | None, longest: int | None = LONGEST) -> str | None:
    """Decode the bytes as text if possible, else show them in hex; a text beyond `longest` is cut."""
    if data is None:
        return None
    try:
        return cut(data.decode(), longest)
    except UnicodeDecodeError:
        kept = len(data) if longest is None else longest // 2
        left = len(data) - kept
        return f"0x{data[:kept].hex()}" + (f"… ({left} more bytes)" if left > 0 else "")


def cut(text: str, longest: int | None = LONGEST) -> str:
    """Shorten the text, and tell by how much."""
    left = 0 if longest is None else len(text) - longest
    return text if left <= 0 else f"{text[:longest]}… ({left} more characters)"


def printable(text: str) -> str:
    """Escape what a terminal takes for commands, line ends too."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


class RecordText:
    """Shows keys or values, by a converter if there is one; what that cannot read is shown as it is."""

    longest: int | None = LONGEST
    """The most characters of a text; None: all."""

    def __init__(self, converter: Converter | None = None) -> None:
        self._converter = converter
        self._away = False

    @classmethod
    def of(
        cls,
        named: ConverterConfig,
        plugins: Plugins,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> Self:
        """Make it of this converter; `settings`: the worker's, for plugins. Errors: ConfigError."""
        converter: Converter = plugins.find("converter", named.class_name).load()()
        converter.worker = settings
        converter.configure(named.props, named.props["converter.type"] == "key")
        return cls(converter)

    @classmethod
    def of_connector(
        cls,
        side: str,
        connector: Mapping[str, str],
        worker: Mapping[str, str],
        plugins: Plugins,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> Self:
        """Make it for the `key` or `value` of a connector; without a converter that can be used it shows bytes.

        `worker`: the worker's properties; `settings`: those for plugins.
        """
        named = converter_config(side, connector, worker)
        if not named.class_name:
            return cls()
        try:
            return cls.of(named, plugins, settings)
        except ConfigError as error:
            log.warning("%ss are shown as they are: %s cannot be used here: %s", side, named.class_name, error)
            return cls()

    def __call__(self, data: bytes | None) -> str | None:
        """Show the bytes; None for null."""
        shown = None if data is None or len(data) > _MOST_DECODED else self.converted(data)
        return self.plain(data) if shown is None else cut(shown, self.longest)

    def converted(self, data: bytes) -> str | None:
        """Show the bytes by the converter; None if it cannot read them."""
        if self._converter is None or self._away:
            return None
        try:
            found = self._converter.shown(data)
        except DataError:  # this may be why it is a dead letter
            return None
        except RetriableError as error:
            self._away = True  # each further record would wait as long
            log.warning("Bytes are shown as they are: %s", error)
            return None
        return text_of(data, None) if found is None else found

    def plain(self, data: bytes | None) -> str | None:
        """Show the bytes without the converter; None for null."""
        return text_of(data, self.longest)

    def close(self) -> None:
        """End the converter."""
        if self._converter is not None:
            self._converter.close()
