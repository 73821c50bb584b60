"""Config provider of Strimzi's workers: secrets that are read from the API of Kubernetes.

    ${strimzisecrets:namespace/secret:key}

The pod's own service account asks; it needs the right to `get` the secret.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import httpx

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError, Problem
from headrace.config.providers import ConfigProvider, Provided

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PATH: Final = re.compile(r"([a-z0-9][a-z0-9-]*)/([a-z0-9][a-z0-9.-]*)")
_TIMEOUT_S: Final = 10.0
_REASONS: Final[dict[int, tuple[str, str]]] = {
    httpx.codes.UNAUTHORIZED: ("the service account's token was refused", "Mount a valid one."),
    httpx.codes.FORBIDDEN: ("the service account may not read it", "Grant it `get` on this secret by a Role."),
    httpx.codes.NOT_FOUND: ("there is no such secret", "Create it, or mend the variable."),
}


class KubernetesSecretConfigProvider(ConfigProvider):
    """`${name:namespace/secret:key}`: a value of a secret of Kubernetes."""

    version = CONNECT_VERSION
    account: Path = _ACCOUNT
    """The folder of the service account, with `token` and `ca.crt`."""

    def get(self, path: str, keys: Collection[str]) -> Provided:
        """The secret's values by key, decoded. Errors: ConfigError, without any of the secret's content."""
        found = _PATH.fullmatch(path)
        if found is None:
            raise _failure(path, "the path is not namespace/secret", "Write it so.")
        data = self._secret(path, f"/api/v1/namespaces/{found[1]}/secrets/{found[2]}")
        try:
            values = {key: base64.b64decode(data[key], validate=True).decode() for key in keys if key in data}
        except (ValueError, TypeError) as error:
            raise _failure(path, "a value is no text in UTF-8", "Store text under this key.") from error
        return Provided(values)

    def _secret(self, path: str, at: str) -> dict[str, Any]:
        try:
            # Kubernetes renews the token and the authorities, so they are read at each question.
            token = (self.account / "token").read_text(encoding="ascii").strip()
            tls = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
        except (OSError, ValueError) as error:
            why = "the pod has no usable service account"
            raise _failure(path, why, "Set automountServiceAccountToken, or mount one.") from error
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        try:
            answer = httpx.get(_api(path) + at, headers=headers, verify=tls, timeout=_TIMEOUT_S, trust_env=False)
        except httpx.HTTPError as error:
            why = f"the API of Kubernetes did not answer ({type(error).__name__})"
            raise _failure(path, why, "See that the pod reaches it.") from error
        if answer.status_code != httpx.codes.OK:
            other = f"the API of Kubernetes answered {answer.status_code}", "Try again later."
            raise _failure(path, *_REASONS.get(answer.status_code, other))
        return _data(path, answer)


def _data(path: str, answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        body = None
    data = body.get("data") or {} if isinstance(body, dict) else None
    if not isinstance(data, dict):
        raise _failure(path, "the answer is no secret", "See what KUBERNETES_SERVICE_HOST names.")
    return data


def _api(path: str) -> str:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise _failure(path, "KUBERNETES_SERVICE_HOST is not set", "Run the worker in a pod, or use another provider.")
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"


def _failure(path: str, why: str, remedy: str) -> ConfigError:
    return ConfigError(Problem(path, None, f"Could not read the secret {path} of Kubernetes: {why}", remedy))
