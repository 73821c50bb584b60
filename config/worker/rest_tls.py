"""TLS of the REST API's listeners, and of workers that call each other.

As in Apache's worker its settings are those under `listeners.https.`, under `admin.listeners.https.` for
`admin.listeners`, and so for `metrics.listeners`. If there are none, the worker's `ssl.*` apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.config.kafka.client_settings import SSL
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Settings
from headrace.config.tls import RenewedContext, TlsSettings
from headrace.config.worker.listeners import Listener, parse_listeners
from headrace.config.worker.settings import DISTRIBUTED

LISTENERS: Final = "listeners"
ADMIN_LISTENERS: Final = "admin.listeners"
METRICS_LISTENERS: Final = "metrics.listeners"
ALL_LISTENERS: Final = (LISTENERS, ADMIN_LISTENERS, METRICS_LISTENERS)
"""The settings that name listeners."""
SERVER_SETTINGS: Final = SSL + Settings(DISTRIBUTED["ssl.client.auth"])
"""The settings below each prefix."""


def https_prefix(setting: str) -> str:
    """The prefix of the TLS settings of listeners, by the name of their setting."""
    return f"{setting}.https."


HTTPS_PREFIXES: Final = tuple(map(https_prefix, ALL_LISTENERS))


def listeners_tls(
    props: Mapping[str, str], listeners: Sequence[Listener], setting: str = LISTENERS
) -> RenewedContext | None:
    """The listeners' TLS context; None if none is https. Errors: ConfigError, also if a store cannot be read."""
    if not any(one.scheme == "https" for one in listeners):
        return None
    settings = tls_settings(props, setting)
    context = RenewedContext(settings.server_context, settings.files, f"the {setting} with https")
    context.current()
    return context


def listener_problems(props: Mapping[str, str], given: Mapping[str, Sequence[str]]) -> list[Problem]:
    """Problems of listeners, by the settings that name them, and of their TLS."""
    problems = []
    for setting, urls in given.items():
        try:
            listeners_tls(props, parse_listeners(urls, setting), setting)
        except ConfigError as error:
            problems += error.problems
    return list(dict.fromkeys(problems))  # all may read the same TLS settings


def workers_tls(props: Mapping[str, str]) -> RenewedContext:
    """The TLS context for calls to other workers.

    Errors: ConfigError for wrong settings; faults of its files come at first use.
    """
    settings = tls_settings(props)
    return RenewedContext(settings.peer_context, settings.files, "requests to other workers")


def tls_settings(props: Mapping[str, str], setting: str = LISTENERS) -> TlsSettings:
    """The TLS settings of the listeners of a setting. Errors: ConfigError."""
    prefix = https_prefix(setting)
    own = {key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix)}
    try:
        return TlsSettings(SERVER_SETTINGS.parse(own or props), prefix if own else "")
    except ConfigError as error:
        named = [Problem(prefix + one.key, one.value, one.message, one.remedy) for one in error.problems]
        raise ConfigError(named if own else error.problems) from error
