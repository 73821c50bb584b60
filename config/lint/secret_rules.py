"""Rules about secrets and variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from headrace.config.lint.finding import Said, Severity, rule
from headrace.config.lint.view import ConnectorView
from headrace.config.settings import Settings, Type
from headrace.config.values import HIDDEN, telling
from headrace.config.variables import variables_in

_NAMED: Final = re.compile(
    r"(?:password|passphrase|secret|token|jaas\.config|private.?key|secret.?key|user\.info)$", re.IGNORECASE
)
"""Ends of undeclared settings that are secrets; a part of the name, such as `credentials.source`, does not tell."""
_JAAS: Final = re.compile(r"(?:password|secret)\w*\s*=", re.IGNORECASE)
_LOGIN: Final = re.compile(r"://[^/\s:@]*:[^/\s@]+@|[?&;](?:password|passwd|pwd|secret|token)=[^&;\s]+", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
_ADVICE: Final = (
    "Keep it outside, and write a variable: ${file:/etc/headrace/secrets.properties:KEY} with a provider in the "
    "worker's config.providers."
)


def is_literal_secret(key: str, value: str, declared: Settings) -> bool:
    """True if a value is a secret in the clear."""
    if next(variables_in(value), None) is not None or value.strip() == HIDDEN:
        return False
    if _LOGIN.search(value):
        return True
    by_name = declared[key].type is Type.PASSWORD if key in declared else _NAMED.search(key) is not None
    if not by_name or not telling(value):
        return False
    if key.endswith("jaas.config"):
        return _JAAS.search(value) is not None
    return "-----BEGIN CERTIFICATE" not in value or "PRIVATE KEY-----" in value


def of_secret(key: str) -> Said:
    """The words about a secret in the clear."""
    return Said(key, "A secret stands here in the clear.", _ADVICE)


@rule("literal-secret", Severity.WARNING, "A secret in the clear, where a variable of a config provider could stand.")
def literal_secret(view: ConnectorView) -> Iterator[Said]:
    """Literal values of settings for secrets, and passwords within URLs."""
    for key, value in view.config.items():
        if is_literal_secret(key, value, view.declared):
            yield of_secret(key)


@rule("blank-around-secret", Severity.WARNING, "A secret with blanks at its begin or end, which are part of it.")
def blank_around_secret(view: ConnectorView) -> Iterator[Said]:
    """Secrets with blanks around them; Connect takes blanks away from other values only."""
    for key, value in view.config.items():
        if key in view.declared and view.declared[key].type is Type.PASSWORD and value != value.strip():
            yield Said(key, "Blanks around a secret are part of it.", "Remove them at the begin and end of the value.")


@rule("unresolved-variable", Severity.WARNING, "A variable that the worker leaves as it stands.")
def unresolved_variable(view: ConnectorView) -> Iterator[Said]:
    """Variables of providers that the worker does not have, and those without a provider."""
    worker = view.around.worker
    for key, value in view.config.items():
        for name in _PLACEHOLDER.findall(value):
            advice = f"Name a provider of the worker's config.providers, such as ${{env:{name}}}."
            yield Said(key, f"${{{name}}} names no config provider, so that it stays as it stands.", advice)
        for variable in variables_in(value) if worker is not None else ():
            if variable.provider not in worker["config.providers"]:  # type: ignore[index]
                message = f"The worker has no config provider {variable.provider}, so that the text stays as it stands."
                yield Said(key, message, f"Add {variable.provider} to the worker's config.providers.")
