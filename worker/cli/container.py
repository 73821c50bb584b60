"""A worker as the process of a container: its properties come from the environment; it checks its own health."""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

import javaproperties

from headrace.config.properties import read_properties
from headrace.config.worker.environment import misread, own_url, properties_from
from headrace.config.worker.settings import DISTRIBUTED, STANDALONE
from headrace.plugins.scratch import scratch_folder
from headrace.worker.cli.unknown_user import naming

MODES: Final = {"standalone": STANDALONE, "distributed": DISTRIBUTED}
_HEALTH_SECONDS: Final = 15.0
"""Longer than the ten seconds after which a worker answers that it is not ready."""


def exec_worker(mode: str, connectors: Sequence[Path], base: Path | None, environment: Mapping[str, str]) -> NoReturn:
    """Replace this process with the worker. Errors: ConfigError for an unreadable `base`; UnknownUser; OSError."""
    props = merged(base, environment)
    for name, meant in misread(props, MODES[mode]).items():
        print(f"headrace: {name} is no setting; for {meant} write __ for _ and ___ for -", file=sys.stderr)
    # It may hold secrets, so only this user can read it.
    folder = scratch_folder("worker")
    folder.outlive_exec()
    file = Path(folder.name, "worker.properties")
    file.write_text(javaproperties.dumps(props, timestamp=False), encoding="iso-8859-1")
    os.environ.update(naming(Path(folder.name)))
    command = Path(sys.executable).with_name(f"connect-{mode}")
    os.execv(command, [str(command), str(file), *map(str, connectors)])


def merged(base: Path | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The properties of a file, overridden by those of the environment. Errors: ConfigError."""
    return {**(read_properties(base) if base else {}), **properties_from(environment)}


def health_check(props: Mapping[str, str]) -> tuple[str, ssl.SSLContext | None]:
    """The URL of the health of the worker with these properties, and a TLS context for https. Errors: ConfigError."""
    url = f"{own_url(props)}/health"
    if not url.startswith("https:"):
        return url, None
    from headrace.config.worker.rest_tls import tls_settings

    # It may ask for a certificate. Its own need not name this address, nor be trusted by this process.
    context = tls_settings(props).client_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return url, context


def health(url: str, tls: ssl.SSLContext | None = None) -> tuple[bool, str]:
    """Ask a worker for its health; returns if it is healthy, and its answer.

    Decided: a worker that asks for a login counts as healthy, because it answers, and its container would be restarted
    for ever; loses: its health, unless rest.login.open.paths has /health.
    """
    import httpx

    try:
        answer = httpx.get(url, timeout=_HEALTH_SECONDS, trust_env=False, verify=tls or True)
    except httpx.HTTPError as error:
        return False, f"No answer: {str(error) or type(error).__name__}. Does the worker listen there?"
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        return True, "It answers, and asks for a login: with rest.login.open.paths=/health its health is seen."
    return answer.is_success, answer.text
