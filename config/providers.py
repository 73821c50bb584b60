"""Where the values of variables come from: what a config provider is, and Apache's three.

A provider is looked up among the plugins by its class name, as connectors are; see `variables.py` for what a variable
is, and `plugins/discovery.py` for how a third party declares one.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import javaproperties

from headrace import CONNECT_VERSION
from headrace.config.files import READING, read_file, read_open
from headrace.config.name_regex import name_regex
from headrace.config.paths import open_within, root_of
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import Check

log = logging.getLogger(__name__)

_NOT_ALLOWED: Final = "The path %s is not allowed to be accessed"


@dataclass(frozen=True)
class Provided:
    """A provider's values under a path; a key that it does not have is absent."""

    values: Mapping[str, str]
    ttl_ms: int | None = None
    """How long the values hold; None: until their user starts again."""


class ConfigProvider(ABC):
    """Knows the values of the variables `${name:path:key}`; any thread may call."""

    settings: ClassVar[Settings] = Settings()
    """Its `config.providers.<name>.param.*`."""
    version: ClassVar[str]

    def configure(self, params: Mapping[str, Any]) -> None:  # noqa: B027 - some need nothing
        """Ready; `params` are its settings, parsed, and as text what else stands under its prefix.

        Errors: ConfigError, whose problems name settings without prefix.
        """

    @abstractmethod
    def get(self, path: str, keys: Collection[str]) -> Provided:
        """The values of these keys under the path, which is empty for `${name:key}`.

        Errors: any; the user of the value cannot start, and reports the error's text.
        """

    def close(self) -> None:  # noqa: B027
        """All that was open is closed."""


class AllowedPaths:
    """The files that a provider may read: all, or those in some folders, wherever symbolic links lead."""

    def __init__(self, allowed: Collection[str] = ()) -> None:
        self._allowed = allowed

    def allows(self, path: Path) -> bool:
        """Whether the path may be read; logs where it may not."""
        allowed = not self._allowed or root_of(os.path.realpath(path), self._allowed) is not None
        if not allowed:
            log.warning(_NOT_ALLOWED, path)
        return allowed

    def read(self, path: Path) -> str | None:
        """The text of a file; None, which is logged, where it is not allowed at the moment it is opened.

        Errors: OSError, UnicodeError.
        """
        if not self._allowed:
            return read_file(path).decode()
        descriptor = open_within(str(path), READING, self._allowed)
        if descriptor is None:
            log.warning(_NOT_ALLOWED, path)
            return None
        return read_open(descriptor).decode()


def _paths(name: str, value: Any) -> str | None:
    for path in map(Path, value):
        if not path.is_absolute():
            return f"Path {path} is not absolute"
        if not path.exists():
            return f"Path {path} does not exist"
    return None


def _pattern(name: str, value: Any) -> str | None:
    try:
        name_regex(value)
    except ValueError as error:
        return f"Invalid value {value} for configuration {name}: {error}"
    return None


_ALLOWED_PATHS: Final = Settings(
    Setting(
        "allowed.paths",
        Type.LIST,
        [],
        Check(_paths, "absolute paths that exist"),
        Importance.HIGH,
        "Files and folders that variables may name; empty allows all that the worker can read.",
    )
)


class _PathsProvider(ConfigProvider):
    """A provider that reads files."""

    settings = _ALLOWED_PATHS
    version = CONNECT_VERSION

    def __init__(self) -> None:
        self._paths = AllowedPaths()

    def configure(self, params: Mapping[str, Any]) -> None:
        self._paths = AllowedPaths(params["allowed.paths"])


class FileConfigProvider(_PathsProvider):
    """`${name:file:key}`: a property of a properties file, in UTF-8."""

    def get(self, path: str, keys: Collection[str]) -> Provided:
        try:
            text = self._paths.read(Path(path)) if path else None
            found = javaproperties.loads(text or "")
        except (OSError, ValueError) as error:
            raise ConfigError(
                Problem(path, None, f"Could not read properties from file {path}", f"{_why(error)}; mend it.")
            ) from error
        return Provided({key: found[key] for key in keys if key in found})


class DirectoryConfigProvider(_PathsProvider):
    """`${name:folder:file}`: what a file directly in a folder holds, its last line end included."""

    def get(self, path: str, keys: Collection[str]) -> Provided:
        folder = Path(path)
        if not path or not self._paths.allows(folder):
            return Provided({})
        if not folder.is_dir():
            log.warning("The path %s is not a directory", path)
            return Provided({})
        return Provided(dict(self._files(folder, keys)))

    def _files(self, folder: Path, keys: Collection[str]) -> Iterator[tuple[str, str]]:
        for key in keys:
            # A key is a name: one with a slash in it would lead out of the folder.
            if Path(key).name != key or not (folder / key).is_file():
                continue
            try:
                text = self._paths.read(folder / key)
            except (OSError, ValueError) as error:
                message = f"Could not read file {folder / key} for property {key}"
                raise ConfigError(Problem(key, None, message, f"{_why(error)}; mend it.")) from error
            if text is not None:
                yield key, text


class EnvVarConfigProvider(ConfigProvider):
    """`${name:VARIABLE}`: a variable of the worker's environment, as it was when the worker started."""

    settings = Settings(
        Setting(
            "allowlist.pattern",
            Type.STRING,
            ".*",
            Check(_pattern, "a regular expression"),
            Importance.LOW,
            "What the whole name of a variable must match.",
        )
    )
    version = CONNECT_VERSION

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        self._allowed = name_regex(".*")

    def configure(self, params: Mapping[str, Any]) -> None:
        self._allowed = name_regex(params["allowlist.pattern"])

    def get(self, path: str, keys: Collection[str]) -> Provided:
        if path:
            message = f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'"
            raise ConfigError(Problem(path, None, message, "Write ${provider:VARIABLE}."))
        known = self._environment
        return Provided({key: known[key] for key in keys if key in known and self._allowed.match(key)})


def _why(error: Exception) -> str:
    """The kind of an error, without the content that was read: a parser's text may show it."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "It is not in UTF-8" if isinstance(error, UnicodeError) else r"It has a \u without four hexadecimal digits"
