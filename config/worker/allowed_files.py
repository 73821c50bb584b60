"""Refuses files in a connector's settings that lie outside of `file.allowed.paths` or are the worker's own.

    problems = file_problems(config, worker)     # before anything opens one
    check_files(config, worker)                  # raises ConfigError

Files that are read whole (stores, keys, key tabs) must be regular and of bounded size, even if every path is allowed:
libraries that open them by name would read a device for ever, and wait for the writer of a pipe.

Decided: files are found in a config by the form of keys and values, as hosts are (`allowed_hosts.py`), because the
rule must hold for third parties' plugins, too; loses: a file that such a plugin takes under another key.
Decided: every fault of a file has the same error, because different ones would tell a user without access which files
exist; loses: a mistyped name has the error of a forbidden file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from headrace.config.files import MOST_BYTES, is_readable
from headrace.config.paths import root_of
from headrace.config.problems import ConfigError, Problem
from headrace.config.values import HIDDEN

ALLOWED_PATHS: Final = "file.allowed.paths"
OWN_FILES: Final = "the worker's own files"
"""The key of the worker's own files in the settings for plugins."""

_READ_WHOLE: Final = re.compile(
    r"(^|[._])((ssl|tls)[._](truststore|keystore)([._]location)?|client\.keystore|sslcert|sslkey|sslrootcert"
    r"|keytab([._](file|path|location))?|assertion\.(file|private\.key\.file|template\.file)"
    r"|syslog\.(truststore|keystore)|ssl\.(key|cert\.chain)\.path)$",
    re.I,
)
_OTHERS: Final = re.compile(r"(^|\.)(file|filename)$", re.I)
"""Settings that name a file of any size; it need not exist yet."""
_URL_PARAMETER: Final = re.compile(r"[?&;]([\w.]+)=([^&;]*)")
_OF_DRIVERS: Final = frozenset(
    (
        *("sslcert", "sslkey", "sslrootcert", "sslcrl", "passfile"),
        *("serversslcert", "serverrsapublickeyfile", "keystore", "truststore"),
        *("clientcertificatekeystoreurl", "trustcertificatekeystoreurl"),
    )
)
"""Parameters of JDBC drivers that name a file, in lower case."""
_JAAS_OPTION: Final = re.compile(
    r"\b(keyTab|ticketCache|ssl\.\w+\.location)\s*=\s*(\"(?:\\.|[^\"\\])*\"|[^\s;\"]+)", re.I
)
_NOT_OURS: Final = ("transforms.", "predicates.")
"""Prefixes of settings that name no file: a `file` below them is a value for records."""


class NamedFile(NamedTuple):
    """A file that a setting names."""

    key: str
    path: str
    is_read_whole: bool
    is_shown: bool = True
    """True if errors may show the setting's value."""


def named_files(config: Mapping[str, str | None]) -> Iterator[NamedFile]:
    """The files in a config."""
    for key, value in config.items():
        if not value or not value.strip() or key.startswith(_NOT_OURS):
            continue
        if key.endswith("sasl.jaas.config"):
            for _, path in _JAAS_OPTION.findall(value):
                yield NamedFile(key, _plain(path.strip('"')), True, is_shown=False)
        elif key.endswith("connection.url") or value.strip().lower().startswith("jdbc:"):
            for name, path in _URL_PARAMETER.findall(value):
                yield from _of_driver(key, name, unquote(path), is_shown=False)
        elif key.startswith("connection."):
            yield from _of_driver(key, key.removeprefix("connection."), value)
        elif _READ_WHOLE.search(key) or _OTHERS.search(key):
            yield NamedFile(key, _plain(value), _READ_WHOLE.search(key) is not None)


def own_files(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The files in a worker's properties, without duplicates."""
    return tuple(dict.fromkeys(one.path for one in named_files(properties)))


def file_problems(config: Mapping[str, str | None], worker: Mapping[str, Any]) -> list[Problem]:
    """Problems of refused files, at most one for each setting; opens no file."""
    allowed = tuple(worker.get(ALLOWED_PATHS) or ())
    own = {os.path.realpath(path) for path in worker.get(OWN_FILES, ())} if allowed else set()
    refused = [one for one in named_files(config) if not _is_allowed(one, allowed, own)]
    return list({one.key: _problem(one, allowed) for one in refused}.values())


def check_files(config: Mapping[str, str | None], worker: Mapping[str, Any]) -> None:
    """Refuses a config with a forbidden file. Errors: ConfigError."""
    if problems := file_problems(config, worker):
        raise ConfigError(problems, "The connector")


def _of_driver(key: str, name: str, value: str, is_shown: bool = True) -> Iterator[NamedFile]:
    if name.lower() in _OF_DRIVERS and "-----BEGIN" not in value:
        yield NamedFile(key, _plain(value), True, is_shown)


def _plain(value: str) -> str:
    """The path; a `file:` URL is decoded."""
    text = value.strip()
    return unquote(urlsplit(text).path) if text.lower().startswith("file:") else text


def _is_allowed(one: NamedFile, allowed: tuple[str, ...], own: set[str]) -> bool:
    if "\0" in one.path:
        return False
    real = os.path.realpath(one.path)
    if allowed and (real in own or root_of(real, allowed) is None):
        return False
    return not one.is_read_whole or is_readable(real)


def _problem(one: NamedFile, allowed: tuple[str, ...]) -> Problem:
    within = f" in {', '.join(allowed)} ({ALLOWED_PATHS}) that is none of the worker's own" if allowed else ""
    kind = f"regular file of at most {MOST_BYTES >> 20} MiB that this worker can read" if one.is_read_whole else "file"
    remedy = f"Check its name, and who may read it; an operator adds folders to {ALLOWED_PATHS}."
    return Problem(one.key, one.path if one.is_shown else HIDDEN, f"It names no {kind}{within}.", remedy)
