"""The settings of the three classes of sinks, by their vendors' names and defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.config.kafka.client_settings import SSL
from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import REQUIRED, Setting, Settings, Type
from headrace.config.validators import Check, OneOfIgnoringCase, Range
from headrace.config.values import invalid, without_login

CONFLUENT_SSL: Final = "elastic.https."
AIVEN_SSL: Final = "connection."
"""Prefixes of Kafka's TLS settings."""
SERVES: Final = "The worker decides how long records are collected and how many wait."
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


_PAIRS: Final = Check(_wrong_pairs, "entries topic:name, separated by commas")
_STREAM_PART: Final = Check(_wrong_part, "a part of a data stream's name")
_URLS: Final = Check(_wrong_urls, "URLs of the cluster's nodes, separated by commas")

_connection, _sending, _mapping = SettingGroup("Connection"), SettingGroup("Batching"), SettingGroup("Data Conversion")
_streams, _proxy, _resources = SettingGroup("Data Streams"), SettingGroup("Proxy"), SettingGroup("Existing Resources")
_aws, _unused = SettingGroup("AWS"), SettingGroup("Accepted")


def _number(name: str, default: int, shown: str, text: str, least: int = 0, most: int | None = None) -> Setting:
    type_ = Type.LONG if name.endswith(".ms") else Type.INT
    return _sending(name, type_, default, LOW, SHORT, shown, text, Range(least, most))


def _none(name: str, type_: Type, default: Any, text: str) -> Setting:
    """A setting without effect."""
    return _unused(name, type_, default, LOW, SHORT, name, text)


def _connections(*, connect_ms: int, read_ms: int) -> tuple[Setting, ...]:
    return (
        _connection(
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
        _connection("connection.username", Type.STRING, None, MEDIUM, SHORT, "Username", "The user, if both are set."),
        _connection("connection.password", Type.PASSWORD, None, MEDIUM, SHORT, "Password", "The user's password."),
        _connection(
            "connection.timeout.ms",
            Type.INT,
            connect_ms,
            LOW,
            SHORT,
            "Connection Timeout",
            "The longest wait for a connection.",
            Range(1),
        ),
        _connection(
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


def _batches(flush_ms: int) -> tuple[Setting, ...]:
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
        _none("linger.ms", Type.LONG, 1, SERVES),
        _none("max.buffered.records", Type.INT, 20000, SERVES),
        _none("flush.timeout.ms", Type.LONG, flush_ms, "A batch is written until it is done, or its task is to end."),
    )


def _documents(nulls: str) -> tuple[Setting, ...]:
    return (
        _mapping(
            "key.ignore",
            Type.BOOLEAN,
            False,
            HIGH,
            SHORT,
            "Ignore Key",
            "If true, topic, partition and offset are a document's id, not the record's key.",
        ),
        _mapping(
            "topic.key.ignore",
            Type.LIST,
            [],
            LOW,
            LONG,
            "Topics without Key",
            "Topics with key.ignore=true in any case.",
        ),
        _mapping(
            "schema.ignore",
            Type.BOOLEAN,
            False,
            LOW,
            SHORT,
            "Ignore Schema",
            "If true, no mapping is made: the server infers types from the first document.",
        ),
        _mapping(
            "topic.schema.ignore",
            Type.LIST,
            [],
            LOW,
            LONG,
            "Topics without Schema",
            "Topics with schema.ignore=true in any case.",
        ),
        _mapping(
            "compact.map.entries",
            Type.BOOLEAN,
            True,
            LOW,
            SHORT,
            "Compact Maps",
            "If true, a map with text keys is an object, else a list of objects with key and value. Only without "
            "schema.ignore.",
        ),
        _mapping(
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
        _mapping(
            "drop.invalid.message",
            Type.BOOLEAN,
            False,
            LOW,
            SHORT,
            "Drop Invalid Messages",
            "If true, records of which no document can be made are passed over.",
        ),
    )


def _malformed(*choices: str) -> Setting:
    return _mapping(
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


def _conflicts(default: str) -> Setting:
    return _mapping(
        "behavior.on.version.conflict",
        Type.STRING,
        default,
        LOW,
        SHORT,
        "Version Conflicts",
        _CONFLICTS,
        OneOfIgnoringCase("ignore", "warn", "fail", "report"),
    )


_SENSITIVE: Final = _mapping(
    "log.sensitive.data",
    Type.BOOLEAN,
    False,
    LOW,
    SHORT,
    "Log Sensitive Data",
    "If true, errors quote the server's reason, which may quote a document.",
)


def _write(name: str, default: str, *choices: str) -> Setting:
    text = "insert: documents are replaced. upsert: the fields present are changed, the others stay."
    return _mapping(name, Type.STRING, default, LOW, SHORT, "Write Method", text, OneOfIgnoringCase(*choices))


_BULK_BYTES: Final = _sending(
    "bulk.size.bytes",
    Type.LONG,
    5 << 20,
    LOW,
    SHORT,
    "Bulk Size",
    "The most bytes of one request, but for a single larger document; -1: no limit.",
    Range(-1),
)
_CONFLUENT_ONLY: Final = (
    _connection(
        "elastic.security.protocol",
        Type.STRING,
        "PLAINTEXT",
        MEDIUM,
        SHORT,
        "Security Protocol",
        "SSL: elastic.https.ssl.* hold. PLAINTEXT: they do not; an https URL then trusts the system's authorities.",
        OneOfIgnoringCase("PLAINTEXT", "SSL"),
    ),
    _connection(
        "auth.type",
        Type.STRING,
        "BASIC",
        MEDIUM,
        SHORT,
        "Authentication",
        "NONE, BASIC (connection.username and connection.password) or API_KEY (api.key.value).",
        OneOfIgnoringCase("NONE", "BASIC", "API_KEY"),
    ),
    _connection("api.key.value", Type.PASSWORD, None, MEDIUM, SHORT, "API Key", "The encoded API key, for API_KEY."),
    _connection(
        "connection.compression", Type.BOOLEAN, False, LOW, SHORT, "Compression", "If true, requests are compressed."
    ),
    _connection(
        "kerberos.user.principal", Type.STRING, None, LOW, SHORT, "Kerberos User", "Refused: there is no Kerberos here."
    ),
    _connection(
        "kerberos.keytab.path", Type.STRING, None, LOW, SHORT, "Kerberos Keytab", "Refused: there is no Kerberos here."
    ),
    _proxy("proxy.host", Type.STRING, "", LOW, SHORT, "Proxy Host", "An HTTP proxy to the cluster."),
    _proxy("proxy.port", Type.INT, 8080, LOW, SHORT, "Proxy Port", "The proxy's port.", Range(1, 65535)),
    _proxy("proxy.username", Type.STRING, "", LOW, SHORT, "Proxy Username", "The proxy's user, if it asks for one."),
    _proxy("proxy.password", Type.PASSWORD, None, LOW, SHORT, "Proxy Password", "The proxy user's password."),
    _BULK_BYTES,
    _none("max.connection.idle.time.ms", Type.INT, 60000, "Connections are kept while they are used."),
    _none("flush.synchronously", Type.BOOLEAN, False, "Transforms may change topics in any case."),
    _write("write.method", "INSERT", "INSERT", "UPSERT"),
    _mapping(
        "use.autogenerated.ids",
        Type.BOOLEAN,
        False,
        LOW,
        SHORT,
        "Ids of the Server",
        "If true, the server makes the ids: a record that comes again is another document.",
    ),
    _mapping(
        "external.version.header",
        Type.STRING,
        "",
        LOW,
        SHORT,
        "Version Header",
        "The header whose number is a document's version, in place of the offset.",
    ),
    _malformed("ignore", "warn", "fail"),
    _conflicts("warn"),
    _SENSITIVE,
    _streams(
        "data.stream.type",
        Type.STRING,
        "NONE",
        LOW,
        SHORT,
        "Data Stream Type",
        "With a data stream's type (logs, metrics or another one) and dataset, records go into the stream "
        "type-dataset-namespace.",
    ),
    _streams("data.stream.dataset", Type.STRING, "", LOW, SHORT, "Data Stream Dataset", "Its dataset.", _STREAM_PART),
    _streams(
        "data.stream.namespace",
        Type.STRING,
        "${topic}",
        LOW,
        SHORT,
        "Data Stream Namespace",
        "Its namespace; ${topic} is the topic.",
        _STREAM_PART,
    ),
    _streams(
        "data.stream.timestamp.field",
        Type.LIST,
        [],
        LOW,
        MID,
        "Timestamp Fields",
        "The first of these fields that a document has is its @timestamp; without any it is the record's time.",
    ),
    _resources(
        "external.resource.usage",
        Type.STRING,
        "DISABLED",
        LOW,
        SHORT,
        "Existing Resources",
        "INDEX, DATASTREAM, ALIAS_INDEX, ALIAS_DATASTREAM: records go into what is there, and nothing is made.",
        OneOfIgnoringCase("DISABLED", "INDEX", "DATASTREAM", "ALIAS_INDEX", "ALIAS_DATASTREAM"),
    ),
    _resources(
        "topic.to.external.resource.mapping",
        Type.LIST,
        [],
        LOW,
        LONG,
        "Resources of Topics",
        "The resource of each topic, as topic:resource.",
        _PAIRS,
    ),
    _none("max.external.resource.mappings", Type.INT, 15, "There is no limit."),
)
_INDEX_MAP: Final = (
    _mapping(
        "topic.index.map",
        Type.LIST,
        [],
        LOW,
        LONG,
        "Indices of Topics",
        "The index of a topic, as topic:index; the index's name is taken as it is.",
        _PAIRS,
    ),
    _none("type.name", Type.STRING, "", "No server has types of documents any more."),
)
_AIVEN_OPENSEARCH_ONLY: Final = (
    _connection(
        "connection.trust.all.certificates",
        Type.BOOLEAN,
        False,
        LOW,
        SHORT,
        "Trust All Certificates",
        "If true, no certificate is verified.",
    ),
    _aws("aws.region", Type.STRING, None, LOW, SHORT, "AWS Region", "The region; it makes requests signed (SigV4)."),
    _aws("aws.service.signing.name", Type.STRING, "es", LOW, SHORT, "AWS Service", "The service's name in signatures."),
    _aws("aws.access_key_id", Type.PASSWORD, None, LOW, SHORT, "AWS Access Key", "Without it the machine's own login."),
    _aws("aws.secret_access_key", Type.PASSWORD, None, LOW, SHORT, "AWS Secret", "The secret of the access key."),
    _aws("aws.sts.role.arn", Type.STRING, None, LOW, SHORT, "AWS Role", "A role to assume."),
    _aws("aws.sts.role.session.name", Type.STRING, None, LOW, SHORT, "AWS Session", "The name of the role's session."),
    _aws("aws.sts.role.external.id", Type.STRING, None, LOW, SHORT, "AWS External Id", "The role's external id."),
    _mapping(
        "key.ignore.id.strategy",
        Type.STRING,
        "topic.partition.offset",
        LOW,
        SHORT,
        "Ids without Key",
        "The ids with key.ignore=true: topic.partition.offset, record.key, or none for ids of the server.",
        OneOfIgnoringCase("topic.partition.offset", "record.key", "none"),
    ),
    _write("index.write.method", "insert", "insert", "upsert"),
    _malformed("ignore", "warn", "fail", "report"),
    _conflicts("fail"),
    _streams(
        "data.stream.enabled", Type.BOOLEAN, False, LOW, SHORT, "Data Streams", "If true, records go into streams."
    ),
    _streams("data.stream.prefix", Type.STRING, "", LOW, SHORT, "Prefix", "Streams are then named prefix-topic."),
    _streams(
        "data.stream.timestamp.field",
        Type.STRING,
        "@timestamp",
        LOW,
        SHORT,
        "Timestamp Field",
        "The field with a document's time. @timestamp is added if it is missing.",
    ),
    _streams(
        "data.streams.existing.index.template.name",
        Type.STRING,
        None,
        LOW,
        MID,
        "Index Template",
        "The template that makes indices data streams; without it one is made for each stream.",
    ),
    _resources(
        "existing.resource.type",
        Type.STRING,
        "none",
        LOW,
        SHORT,
        "Existing Resources",
        "index, alias or data_stream: records go into what is there, and nothing is made.",
        OneOfIgnoringCase("none", "index", "alias", "data_stream"),
    ),
    _resources(
        "topic.to.existing.resource.mapping",
        Type.LIST,
        [],
        LOW,
        LONG,
        "Resources of Topics",
        "The resource of each topic, as topic:resource.",
        _PAIRS,
    ),
    _mapping(
        "routing.type",
        Type.STRING,
        "none",
        LOW,
        SHORT,
        "Routing",
        "key, value: the text that chooses a document's shard is the key, or a field of the value.",
        OneOfIgnoringCase("none", "key", "value"),
    ),
    _mapping(
        "routing.type.record.value.path", Type.STRING, None, LOW, SHORT, "Routing Path", "The field, such as /a/b."
    ),
)

CONFLUENT: Final = Settings(
    *_connections(connect_ms=1000, read_ms=3000),
    *_batches(180_000),
    *_documents("fail"),
    *_CONFLUENT_ONLY,
    *_INDEX_MAP,
    *SSL.prefixed(CONFLUENT_SSL),
)
AIVEN_ELASTICSEARCH: Final = Settings(
    *_connections(connect_ms=1000, read_ms=3000),
    *_batches(10_000),
    *_documents("ignore"),
    _malformed("ignore", "warn", "fail"),
    _conflicts("warn"),
    *_INDEX_MAP,
)
AIVEN_OPENSEARCH: Final = Settings(
    *_connections(connect_ms=1000, read_ms=3000),
    *_batches(10_000),
    *_documents("ignore"),
    *_AIVEN_OPENSEARCH_ONLY,
    *SSL.prefixed(AIVEN_SSL),
)


def pairs(entries: list[str]) -> Mapping[str, str]:
    """The entries topic:name by topic."""
    split = (entry.rpartition(":") for entry in entries)
    return {topic.strip(): name.strip() for topic, _, name in split}
