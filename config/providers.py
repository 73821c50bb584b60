"""Config providers, the sources of variables' values: their contract and Apache's three.

Providers are plugins, found by class name. `variables.py` explains variables; `plugins/interop/discovery.py`
explains how a third party declares a provider.
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
    """A provider's values under a path, by key; unknown keys are absent."""

    values: Mapping[str, str]
    ttl_ms: int | None = None
    """Time that the values stay valid; None: until the connector or task restarts."""


class ConfigProvider(ABC):
    """Resolves variables `${name:path:key}`; any thread may call it."""

    settings: ClassVar[Settings] = Settings()
    """The settings `config.providers.<name>.param.*`."""
    version: ClassVar[str]

    def configure(self, params: Mapping[str, Any]) -> None:  # noqa: B027 - some need nothing
        """Prepares the provider; `params` has its parsed settings, and all else under its prefix as text.

        Errors: ConfigError, whose problems name settings without prefix.
        """

    @abstractmethod
    def get(self, path: str, keys: Collection[str]) -> Provided:
        """The values of these keys under the path; the path is empty for `${name:key}`.

        Errors: any; the connector or task cannot start, and reports the error's text.
        """

    def close(self) -> None:  # noqa: B027
        """Closes everything that is open."""


class AllowedPaths:
    """The files that a provider may read: all, or those in some folders, symbolic links resolved."""

    def __init__(self, allowed: Collection[str] = ()) -> None:
        self._allowed = allowed

    def allows(self, path: Path) -> bool:
        """True if the path may be read; a refusal is logged."""
        allowed = not self._allowed or root_of(os.path.realpath(path), self._allowed) is not None
        if not allowed:
            log.warning(_NOT_ALLOWED, path)
        return allowed

    def read(self, path: Path) -> str | None:
        """The text of a file; None, with a log line, if it is not allowed when it is opened.

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
    """`${name:folder:file}`: the content of a file directly in a folder, with its last line end."""

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
    """`${name:VARIABLE}`: a variable of the worker's environment when the provider was made."""

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
    """The reason without any of the file's content: a parser's message may quote it."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "It is not in UTF-8" if isinstance(error, UnicodeError) else r"It has a \u without four hexadecimal digits"
