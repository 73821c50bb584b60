"""Errors caused by Java plugins and their host process, by what the worker does next.

HostLost, HostTimeout    the task fails and is restarted by the worker, in a new host if the old one is gone
RetriableError           a RetriableException of the plugin: the worker tries again
ConfigError              a ConfigException: the config is refused, or fails the task
JavaError                any other: the task fails, and its status shows Java's trace
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.config.problems import ConfigError, Problem
from headrace.plugins.errors import RetriableError


class HostLost(ConnectionError):
    """The host process ended; the text says how."""


class JvmRefused(HostLost):
    """The host's JVM does not start; the text has its output."""


class HostTimeout(TimeoutError):
    """A plugin did not return from a call within its limit."""


class JavaError(Exception):
    """A plugin's exception; the text is Java's stack trace."""


class Unsupported(NotImplementedError):
    """A plugin's UnsupportedOperationException."""


def error_of(told: Mapping[str, Any]) -> Exception:
    """Return the error that a host sent."""
    short = f"{told['class']}: {told['message']}"
    match told["kind"]:
        case "retriable":
            return RetriableError(told["trace"] or short)
        case "config":
            return ConfigError(Problem("", None, told["message"] or short), "The Java plugin")
        case "unsupported":
            return Unsupported(told["message"] or short)
    return JavaError(told["trace"].rstrip() or short)
