"""TLS of the REST API, of its listeners and of workers that call each other.

As in Apache's worker the settings are those under `listeners.https.` or, for `admin.listeners`, under
`admin.listeners.https.`; and where there is none of these, the `ssl.*` of the worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.config.kafka.client_settings import SSL
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Settings
from headrace.config.tls import RenewedContext, TlsSettings
from headrace.config.worker.listeners import Listener
from headrace.config.worker.settings import DISTRIBUTED

LISTENERS: Final = "listeners"
ADMIN_LISTENERS: Final = "admin.listeners"
SERVER_SETTINGS: Final = SSL + Settings(DISTRIBUTED["ssl.client.auth"])
"""The settings below each prefix."""


def https_prefix(setting: str) -> str:
    """What the TLS settings of `listeners` or `admin.listeners` begin with."""
    return f"{setting}.https."


HTTPS_PREFIXES: Final = (https_prefix(LISTENERS), https_prefix(ADMIN_LISTENERS))


def listeners_tls(
    props: Mapping[str, str], listeners: Sequence[Listener], setting: str = LISTENERS
) -> RenewedContext | None:
    """The certificates of these listeners; None where none of them is https.

    Errors: ConfigError, also where a store cannot be read.
    """
    if not any(one.scheme == "https" for one in listeners):
        return None
    settings = tls_settings(props, setting)
    context = RenewedContext(settings.server_context, settings.files, f"the {setting} with https")
    context.current()
    return context


def workers_tls(props: Mapping[str, str]) -> RenewedContext:
    """What a worker shows and trusts when it calls another one; its errors come with its first use."""
    settings = tls_settings(props)
    return RenewedContext(settings.peer_context, settings.files, "requests to other workers")


def tls_settings(props: Mapping[str, str], setting: str = LISTENERS) -> TlsSettings:
    """The TLS settings of `listeners` or `admin.listeners`. Errors: ConfigError."""
    prefix = https_prefix(setting)
    own = {key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix)}
    try:
        return TlsSettings(SERVER_SETTINGS.parse(own or props), prefix if own else "")
    except ConfigError as error:
        named = [Problem(prefix + one.key, one.value, one.message, one.remedy) for one in error.problems]
        raise ConfigError(named if own else error.problems) from error
