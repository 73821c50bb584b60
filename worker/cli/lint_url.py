"""Asks a worker to judge a connector's config."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx

from headrace.config.lint.finding import Finding, Severity
from headrace.config.values import without_login

_TIMEOUT_S: Final = 60.0


class WorkerLintError(Exception):
    """The worker did not judge a config; `code` is the command's exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class WorkerLint:
    """Judges configs by a worker's plugins, settings, connectors and Kafka cluster."""

    def __init__(self, url: str, cacert: Path | None = None) -> None:
        """`url` may have a login; `cacert`: PEM certificates to trust. Errors: WorkerLintError."""
        try:
            self._trusted = True if cacert is None else ssl.create_default_context(cafile=cacert)
        except OSError as error:
            raise WorkerLintError(f"--cacert {cacert}: it cannot be read: {error.strerror or error}", 2) from error
        self._url = url.rstrip("/")

    def __call__(self, config: Mapping[str, str | None]) -> Sequence[Finding]:
        """Return the worker's findings. Errors: WorkerLintError."""
        plugin = quote(config.get("connector.class") or "", safe="")
        shown = without_login(self._url)
        try:
            path = f"{self._url}/connector-plugins/{plugin}/config/lint"
            answer = httpx.put(path, json=dict(config), timeout=_TIMEOUT_S, verify=self._trusted)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise WorkerLintError(f"no worker answers at {shown}: {error}", 3) from error
        try:
            body = answer.json()
            if answer.is_error:
                raise WorkerLintError(f"the worker at {shown} answers {answer.status_code}: {body['message']}", 1)
            return [
                Finding(one["rule"], Severity(one["severity"]), one.get("setting"), one["message"], one["advice"])
                for one in body["findings"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            text = f"what answers at {shown} judges no configs: {answer.status_code} {answer.text[:100]!r}"
            raise WorkerLintError(f"{text}; --url names a worker of Headrace", 3) from error
