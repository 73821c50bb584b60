"""The options of the HTTP sinks' engine, which each vendor's settings become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from headrace.connectors.http.attempts import Retries

KEY: Final = "key"
TOPIC: Final = "topic"


class Body(StrEnum):
    """The text that a record's value becomes."""

    STRING = "string"
    """Java's text of it; bytes as they are."""
    JSON = "json"
    TEXT_OR_JSON = "text or json"
    """Texts as they are, structs and maps as JSON; all else is refused."""


class Nulls(StrEnum):
    """The treatment of records without a value."""

    IGNORE = "ignore"
    LOG = "log"
    DELETE = "delete"
    FAIL = "fail"


class OnError(StrEnum):
    """The treatment of a record that was refused, or that could not be sent in all its attempts."""

    FAIL = "fail"
    LOG = "log"
    IGNORE = "ignore"


class Replacement(NamedTuple):
    """A replacement in a record's text: Java's pattern, and what stands for it."""

    pattern: str
    by: str


@dataclass(frozen=True)
class SinkOptions:
    """The behaviour of a sink."""

    url: str = field(repr=False)
    """May have `${topic}`, `${key}` and `${field}`."""
    url_setting: str
    method: str
    headers: Mapping[str, str] = field(repr=False)
    body: Body
    retries: Retries
    numeric_decimals: bool = False
    nulls: Nulls = Nulls.IGNORE
    nulls_setting: str = "behavior.on.null.values=fail"
    """The cause that errors name for `FAIL`."""
    on_error: OnError = OnError.FAIL
    batch_size: int = 1
    batch_key: str = ""
    """May have `${topic}` and `${key}`; records share a request only if theirs are equal."""
    prefix: str = ""
    suffix: str = ""
    separator: str = ","
    replacements: Sequence[Replacement] = ()
    has_templates: bool = True
    """True if the URL's `${…}` are filled in."""
