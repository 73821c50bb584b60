"""The retries by Confluent's setting names, which its sink and its source share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.config.settings import Settings, Type
from headrace.config.validators import Check, OneOfIgnoringCase
from headrace.connectors.http.attempts import Retries, Statuses, constant, exponential, statuses_problem
from headrace.connectors.http.settings import number, option

_GROWING: Final = "EXPONENTIAL_WITH_JITTER"
_STATUSES: Final = Check(statuses_problem, "statuses and ranges, such as 404,408,500-")


def retry_settings(most: int) -> Settings:
    """The settings of retries; `most`: the default of `max.retries`."""
    return Settings(
        number("max.retries", most, "How often a request is tried again."),
        number("retry.backoff.ms", 3000, "The pause before a retry, the first one if it grows."),
        option(
            "retry.backoff.policy",
            Type.STRING,
            _GROWING,
            f"{_GROWING} or CONSTANT_VALUE.",
            OneOfIgnoringCase(_GROWING, "CONSTANT_VALUE"),
        ),
        option("retry.on.status.codes", Type.STRING, "400-", "The statuses that are tried again.", _STATUSES),
    )


def retries_of(values: Mapping[str, Any]) -> Retries:
    """The retries of parsed settings."""
    pauses = exponential if values["retry.backoff.policy"].upper() == _GROWING else constant
    statuses = Statuses.of(values["retry.on.status.codes"])
    return Retries(values["max.retries"], statuses, pauses(values["retry.backoff.ms"] / 1000))
