"""The places of tables, in the only forms that this worker and the library read alike.

The library reads a backslash in a URL as a slash, decodes `%` in paths, and puts names such as the region into the
store's host. So a text that seems to stay within allowed paths and hosts could lead elsewhere.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from headrace.config.settings import Problem
from headrace.config.values import HIDDEN

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FILE: Final = re.compile(r"file:(?://)?(/(?!/)[^?#\\]*)", re.I)
_STORE: Final = re.compile(r"(?:s3a?|gs|az|azure|adl|abfss?)://[\w.@-]+(?:/[^?#\\]*)?", re.I | re.A)
_OF_THE_WORKER: Final = re.compile(
    r"(_file|_path|service_account|application_credentials|relative_uri|full_uri|use_azure_cli|profile"
    r"|(metadata|msi|identity)_endpoint|fabric_(token|workload|session|cluster)\w*)$",
    re.I,
)
"""Storage options that name a file of the worker, or the server of its own credentials."""
_ADDRESS: Final = re.compile(r"(?<!use_fabric_)(endpoint|url|url_\w+|uri|host)$", re.I)
_URL: Final = re.compile(r"https?://(\[[0-9a-f:.]+\]|[\w.-]+)(:\d+)?(/[\w./~-]*)?", re.I | re.A)
_PART: Final = re.compile(r"(region|account_name|bucket|bucket_name|container_name)$", re.I)
"""Storage options whose value becomes a part of the store's URL."""
_NAME: Final = re.compile(r"[\w.-]+", re.A)
_KEY: Final = re.compile(r"service_account_key$", re.I)
_HOST_OF_KEY: Final = "gcs_base_url"


def local_path(path: str) -> str | None:
    """Return the path on the worker's host; None for a URL of another system."""
    if (match := _FILE.fullmatch(path)) is not None:
        return unquote(match[1])
    return None if _SCHEME.match(path) else path


def place(path: str) -> str:
    """Return the absolute path on the worker's host, or the URL."""
    local = local_path(path)
    return path if local is None else "/" + os.path.abspath(local).lstrip("/")


def path_problem(path: str, topic: str) -> tuple[str, str] | None:
    """Return why this is no place of tables, and what to do; `topic` is the variable for a topic's name."""
    if (local := local_path(path)) is None:
        if _STORE.fullmatch(path.replace(topic, "t")):
            return None
        if path.lower().startswith("file:"):
            return "It is no URL of a file.", "Write the path itself, such as /srv/lake/orders."
        return "It is no URL of a store that is served.", "Use s3://bucket/path, abfss://, az:// or gs://, or a path."
    if "%" in local or "\\" in local:
        return "The library deltalake does not take % and \\ in paths.", "Name the folder without them."
    return None


def storage_problems(prefix: str, storage: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of options that lead to files of the worker, or in another form to other hosts."""
    for name, value in storage.items():
        key = prefix + name
        if _OF_THE_WORKER.search(name):
            text = "It names a file or the credentials of the worker's machine."
            yield Problem(key, HIDDEN, text, "Give the key or token itself, by a config provider if it is a secret.")
        elif _ADDRESS.search(name) and not _URL.fullmatch(value):
            yield Problem(key, HIDDEN, "It is no URL without a login.", "Write it as https://host:port.")
        elif _PART.search(name) and not _NAME.fullmatch(value):
            text = "It is a part of the store's URL, and has other characters than letters, digits, '-', '_' and '.'."
            yield Problem(key, value, text, "Give the name alone.")
        elif _KEY.search(name) and _names_host(value):
            text = f"The key has {_HOST_OF_KEY}, which leads to another host."
            remedy = f"Remove it from the key, and set {prefix}google_base_url."
            yield Problem(key, HIDDEN, text, remedy)


def _names_host(key: str) -> bool:
    try:
        found = json.loads(key, parse_int=str)
    except (ValueError, RecursionError):  # the library refuses it
        return False
    return isinstance(found, dict) and _HOST_OF_KEY in found
