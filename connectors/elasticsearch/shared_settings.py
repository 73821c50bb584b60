"""The settings that the classes of sinks share, and their validators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, SHORT, SettingGroup
from headrace.config.settings import REQUIRED, Setting, Type
from headrace.config.validators import Check, OneOfIgnoringCase, Range
from headrace.config.values import invalid, without_login

_COLLECTED: Final = "The worker decides how long records are collected and how many wait."
_MOST_ROWS: Final = 1_000_000
_PART: Final = re.compile(r"[^A-Z/\\*\"<>|,#:\-\s?]{1,100}")


def _wrong_urls(name: str, urls: Any) -> str | None:
    if not urls:
        return invalid(name, urls, "At least one URL is needed")
    return next((invalid(name, without_login(url), why) for url in urls if (why := _wrong_url(url))), None)


def _wrong_url(url: str) -> str | None:
    try:
        split = urlsplit(with_scheme(url))
        port = split.port
    except ValueError:
        return "It cannot be read as a URL"
    if split.scheme not in ("http", "https") or not split.hostname or port == 0 or split.query or split.fragment:
        return "It must be http://host:port or https://host:port, with a path if the server has one"
    return None


def with_scheme(url: str) -> str:
    """The URL; `http://` stands before one without a scheme."""
    return url if "://" in url else f"http://{url}"


def _wrong_pairs(name: str, pairs: Any) -> str | None:
    wrong = [pair for pair in pairs or () if not all(part.strip() for part in pair.rpartition(":")[::2])]
    return invalid(name, pairs, f"{wrong[0]!r} is no entry topic:name") if wrong else None


def _wrong_part(name: str, value: Any) -> str | None:
    named = (value or "").replace("${topic}", "topic")
    if not named or _PART.fullmatch(named):
        return None
    return invalid(name, value, 'It must be in lower case, of 100 characters at most, without any of /\\*"<>|,#:-')


PAIRS: Final = Check(_wrong_pairs, "entries topic:name, separated by commas")
STREAM_PART: Final = Check(_wrong_part, "a part of a data stream's name")
_URLS: Final = Check(_wrong_urls, "URLs of the cluster's nodes, separated by commas")

CONNECTION, _sending, MAPPING = SettingGroup("Connection"), SettingGroup("Batching"), SettingGroup("Data Conversion")
STREAMS, PROXY, RESOURCES = SettingGroup("Data Streams"), SettingGroup("Proxy"), SettingGroup("Existing Resources")
AWS, _unused = SettingGroup("AWS"), SettingGroup("Accepted")


def _number(name: str, default: int, shown: str, text: str, least: int = 0, most: int | None = None) -> Setting:
    type_ = Type.LONG if name.endswith(".ms") else Type.INT
    return _sending(name, type_, default, LOW, SHORT, shown, text, Range(least, most))


def none(name: str, type_: Type, default: Any, text: str) -> Setting:
    """A setting without effect."""
    return _unused(name, type_, default, LOW, SHORT, name, text)


def connections(*, connect_ms: int, read_ms: int) -> tuple[Setting, ...]:
    return (
        CONNECTION(
            "connection.url",
            Type.LIST,
            REQUIRED,
            HIGH,
            LONG,
            "Connection URLs",
            "URLs of the cluster's nodes; the next one is tried if one does not answer. One with https makes all use "
            "it, one without a scheme means http.",
            _URLS,
        ),
        CONNECTION("connection.username", Type.STRING, None, MEDIUM, SHORT, "Username", "The user, if both are set."),
        CONNECTION("connection.password", Type.PASSWORD, None, MEDIUM, SHORT, "Password", "The user's password."),
        CONNECTION(
            "connection.timeout.ms",
            Type.INT,
            connect_ms,
            LOW,
            SHORT,
            "Connection Timeout",
            "The longest wait for a connection.",
            Range(1),
        ),
        CONNECTION(
            "read.timeout.ms",
            Type.INT,
            read_ms,
            LOW,
            SHORT,
            "Read Timeout",
            "The longest wait for an answer.",
            Range(1),
        ),
    )


def batches(flush_ms: int) -> tuple[Setting, ...]:
    return (
        _number("batch.size", 2000, "Batch Size", "The most records of one request.", 1, _MOST_ROWS),
        _number("max.in.flight.requests", 5, "Requests in Flight", "The most requests at once of one writer.", 1, 100),
        _number("max.retries", 5, "Retries", "How often a request is repeated before the worker takes over."),
        _number(
            "retry.backoff.ms",
            100,
            "Retry Backoff",
            "The longest pause before the first retry; it doubles with each one. The server may ask for a longer one.",
        ),
        none("linger.ms", Type.LONG, 1, _COLLECTED),
        none("max.buffered.records", Type.INT, 20000, _COLLECTED),
        none("flush.timeout.ms", Type.LONG, flush_ms, "A batch is written until it is done, or its task is to end."),
    )


_DOCUMENTS: Final = (
    MAPPING(
        "key.ignore",
        Type.BOOLEAN,
        False,
        HIGH,
        SHORT,
        "Ignore Key",
        "If true, topic, partition and offset are a document's id, not the record's key.",
    ),
    MAPPING(
        "topic.key.ignore",
        Type.LIST,
        [],
        LOW,
        LONG,
        "Topics without Key",
        "Topics with key.ignore=true in any case.",
    ),
    MAPPING(
        "schema.ignore",
        Type.BOOLEAN,
        False,
        LOW,
        SHORT,
        "Ignore Schema",
        "If true, no mapping is made: the server infers types from the first document.",
    ),
    MAPPING(
        "topic.schema.ignore",
        Type.LIST,
        [],
        LOW,
        LONG,
        "Topics without Schema",
        "Topics with schema.ignore=true in any case.",
    ),
    MAPPING(
        "compact.map.entries",
        Type.BOOLEAN,
        True,
        LOW,
        SHORT,
        "Compact Maps",
        "If true, a map with text keys is an object, else a list of objects with key and value. Only without "
        "schema.ignore.",
    ),
    MAPPING(
        "drop.invalid.message",
        Type.BOOLEAN,
        False,
        LOW,
        SHORT,
        "Drop Invalid Messages",
        "If true, records of which no document can be made are passed over.",
    ),
)


def documents(nulls: str) -> tuple[Setting, ...]:
    """The settings of ids and documents; `nulls` is the default for records without a value."""
    return (
        *_DOCUMENTS,
        MAPPING(
            "behavior.on.null.values",
            Type.STRING,
            nulls,
            LOW,
            SHORT,
            "Null Values",
            "ignore: a record without a value is passed over. delete: it deletes the document of its key. fail: it is "
            "a failed record.",
            OneOfIgnoringCase("ignore", "delete", "fail"),
        ),
    )


def malformed(*choices: str) -> Setting:
    return MAPPING(
        "behavior.on.malformed.documents",
        Type.STRING,
        "fail",
        LOW,
        SHORT,
        "Malformed Documents",
        "ignore, warn: a document that the server refuses is passed over, unless there is a topic of dead letters. "
        "fail and report make it a failed record.",
        OneOfIgnoringCase(*choices),
    )


_CONFLICTS: Final = (
    "ignore, warn: a document that is there with a higher version, and not by this record's batch or a restart, stays. "
    "fail and report make the record a failed one."
)


def conflicts(default: str) -> Setting:
    return MAPPING(
        "behavior.on.version.conflict",
        Type.STRING,
        default,
        LOW,
        SHORT,
        "Version Conflicts",
        _CONFLICTS,
        OneOfIgnoringCase("ignore", "warn", "fail", "report"),
    )


SENSITIVE: Final = MAPPING(
    "log.sensitive.data",
    Type.BOOLEAN,
    False,
    LOW,
    SHORT,
    "Log Sensitive Data",
    "If true, errors quote the server's reason, which may quote a document.",
)


def write(name: str, default: str, *choices: str) -> Setting:
    text = "insert: documents are replaced. upsert: the fields present are changed, the others stay."
    return MAPPING(name, Type.STRING, default, LOW, SHORT, "Write Method", text, OneOfIgnoringCase(*choices))


BULK_BYTES: Final = _sending(
    "bulk.size.bytes",
    Type.LONG,
    5 << 20,
    LOW,
    SHORT,
    "Bulk Size",
    "The most bytes of one request, but for a single larger document; -1: no limit.",
    Range(-1),
)


def pairs(entries: list[str]) -> Mapping[str, str]:
    """The entries topic:name by topic."""
    split = (entry.rpartition(":") for entry in entries)
    return {topic.strip(): name.strip() for topic, _, name in split}
