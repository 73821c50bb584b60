"""The settings of the syslog sources, by their vendors' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from ssl import SSLContext
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.config.files import read_file
from headrace.config.kafka.client_settings import SSL
from headrace.config.problems import ConfigError, Problem
from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import REQUIRED, Password, Setting, Settings, Type
from headrace.config.tls import RenewedContext, TlsSettings
from headrace.config.validators import Check, NonEmpty, OneOf, OneOfIgnoringCase, OrNull, Range
from headrace.config.values import invalid
from headrace.connectors.logs.lines import Encoding
from headrace.connectors.logs.syslog.listening import Address

_PREFIX: Final = "syslog."
_PEM: Final = {
    "ssl.keystore.key": "syslog.ssl.key.path",
    "ssl.keystore.certificate.chain": "syslog.ssl.cert.chain.path",
}
"""Settings of TLS as texts, each with Confluent's name for a file of that text."""
_CLIENT_AUTH: Final = Setting(
    "ssl.client.auth",
    Type.STRING,
    "none",
    OneOf("none", "requested", "required"),
    documentation="If senders need a certificate that the trust store knows.",
)
_TLS: Final = SSL + Settings(_CLIENT_AUTH)


def _charset_problem(name: str, value: Any) -> str | None:
    try:
        encoding = Encoding.of(value)
    except ValueError as error:
        return invalid(name, value, str(error))
    return None if encoding.width == 1 else invalid(name, value, "Line ends of one byte are needed.")


def _zone_problem(name: str, value: Any) -> str | None:
    try:
        pc.assume_timezone(pa.array([0], pa.timestamp("ms")), value)
    except pa.ArrowInvalid:
        return invalid(name, value, "It is no time zone such as UTC or Europe/Berlin.")
    return None


_CHARSET: Final = Check(_charset_problem, "an encoding such as UTF-8 or ISO-8859-1")
_PORT: Final = Range(1, 65_535)


def _limits(group: SettingGroup) -> tuple[Setting, ...]:
    """Settings of ours that all classes have."""
    return (
        group(
            "message.max.bytes",
            Type.INT,
            65_536,
            LOW,
            SHORT,
            "Longest message",
            "What a message has beyond is cut off, counted and logged.",
            Range(480, 8 << 20),
        ),
        group(
            "buffer.bytes",
            Type.INT,
            16 << 20,
            LOW,
            SHORT,
            "Buffer (bytes)",
            "What arrived and is not in Kafka yet. Beyond it, TCP holds senders back, and datagrams are dropped and "
            "counted.",
            Range(1 << 16),
        ),
        group(
            "connections.max",
            Type.INT,
            1_024,
            LOW,
            SHORT,
            "Most connections",
            "Further connections are refused.",
            Range(1),
        ),
        group(
            "timezone",
            Type.STRING,
            "UTC",
            MEDIUM,
            SHORT,
            "Time zone",
            "The zone of dates that name none, as those of RFC 3164.",
            Check(_zone_problem, "a time zone such as UTC or Europe/Berlin"),
        ),
    )


def _unused(group: SettingGroup, *declared: tuple[str, Type, Any, str]) -> tuple[Setting, ...]:
    return tuple(
        group(name, kind, default, LOW, SHORT, shown, "Accepted without effect.")
        for name, kind, default, shown in declared
    )


_listener = SettingGroup("Listener")
CONFLUENT: Final = Settings(
    _listener("syslog.port", Type.INT, REQUIRED, HIGH, SHORT, "Port", "The port to listen on.", _PORT),
    _listener(
        "syslog.listener",
        Type.STRING,
        "UDP",
        HIGH,
        SHORT,
        "Listener",
        "UDP, TCP, or TCPSSL for TLS.",
        OneOfIgnoringCase("UDP", "TCP", "TCPSSL"),
    ),
    _listener(
        "syslog.listen.address",
        Type.STRING,
        "0.0.0.0",
        LOW,
        MID,
        "Listen address",
        "The address to listen on; 0.0.0.0 for all of IPv4, :: for all.",
        NonEmpty(),
    ),
    _listener("topic", Type.STRING, "syslog", HIGH, MID, "Topic", "The topic of all records.", NonEmpty()),
    _listener(
        "topic.prefix", Type.STRING, None, LOW, MID, "Topic", "Former name of topic, which counts if both are set."
    ),
    _listener(
        "syslog.charset", Type.STRING, "UTF-8", LOW, SHORT, "Character set", "The encoding of messages.", _CHARSET
    ),
    _listener(
        "syslog.idle.timeout.secs",
        Type.INT,
        0,
        LOW,
        SHORT,
        "Idle timeout (s)",
        "A connection that was silent for so long is closed; 0: never.",
        Range(0),
    ),
    *_limits(_listener),
    *_unused(
        _listener,
        ("syslog.backoff.millis", Type.INT, 100, "Backoff (ms)"),
        ("syslog.queue.batch.size", Type.INT, None, "Batch size"),
        ("syslog.queue.max.size", Type.INT, None, "Queue size"),
        ("syslog.write.timeout.millis", Type.INT, None, "Write timeout (ms)"),
        ("syslog.ssl.provider", Type.STRING, None, "SSL provider"),
    ),
    _listener(
        "syslog.ssl.cert.chain.path",
        Type.STRING,
        None,
        HIGH,
        LONG,
        "Certificate",
        "A PEM file with this listener's certificate and its chain, for TCPSSL; or use syslog.ssl.keystore.*.",
    ),
    _listener("syslog.ssl.key.path", Type.STRING, None, HIGH, LONG, "Key", "A PEM file with the certificate's key."),
    _listener(
        "syslog.ssl.self.signed.certificate.enable",
        Type.BOOLEAN,
        False,
        LOW,
        SHORT,
        "Self-signed certificate",
        "Only false is served: a certificate that nobody can check protects from nobody.",
        Check(
            lambda name, value: invalid(name, value, "Name a certificate and key instead.") if value else None, "false"
        ),
    ),
    *_TLS.prefixed(_PREFIX),
)

_jc = SettingGroup("Syslog")
_JC_COMMON: Final = (
    _jc("kafka.topic", Type.STRING, REQUIRED, HIGH, MID, "Topic", "The topic of all records.", NonEmpty()),
    _jc("syslog.port", Type.INT, 5_514, HIGH, SHORT, "Port", "The port to listen on.", _PORT),
    _jc("syslog.host", Type.STRING, None, HIGH, MID, "Host", "The address to listen on; without it, all of IPv4."),
    _jc("syslog.charset", Type.STRING, "UTF-8", LOW, SHORT, "Character set", "The encoding of messages.", _CHARSET),
    _jc(
        "syslog.reverse.dns.remote.ip",
        Type.BOOLEAN,
        False,
        LOW,
        SHORT,
        "Reverse DNS",
        "If true, hostname is the name of the sender's address, if one is found within a second.",
    ),
    _jc(
        "syslog.reverse.dns.cache.ms",
        Type.LONG,
        60_000,
        LOW,
        SHORT,
        "DNS cache (ms)",
        "How long such a name counts.",
        Range(0),
    ),
    *_limits(_jc),
    *_unused(
        _jc,
        ("backoff.ms", Type.INT, 100, "Backoff (ms)"),
        ("batch.size", Type.INT, 5_000, "Batch size"),
        ("syslog.shutdown.wait", Type.LONG, 500, "Shutdown wait (ms)"),
        ("syslog.structured.data", Type.BOOLEAN, False, "Structured data"),
    ),
)
_JC_TCP: Final = (
    _jc(
        "syslog.max.active.sockets",
        Type.INT,
        0,
        LOW,
        SHORT,
        "Most sockets",
        "The most connections; with 0 connections.max counts.",
        Range(0),
    ),
    _jc(
        "syslog.timeout",
        Type.INT,
        0,
        LOW,
        SHORT,
        "Timeout (ms)",
        "A connection that was silent for so long is closed; 0: never.",
        Range(0),
    ),
    *_unused(
        _jc,
        ("syslog.backlog", Type.INT, 50, "Backlog"),
        ("syslog.max.active.sockets.behavior", Type.INT, 0, "Behaviour beyond"),
    ),
)
_JC_STORES: Final = (
    _jc("syslog.keystore", Type.STRING, REQUIRED, HIGH, LONG, "Key store", "This listener's key and certificate."),
    _jc("syslog.keystore.password", Type.PASSWORD, None, HIGH, MID, "Password", "The key store's password."),
    _jc(
        "syslog.truststore",
        Type.STRING,
        None,
        HIGH,
        LONG,
        "Trust store",
        "The authorities of senders' certificates: with it a certificate that they do not vouch for is refused.",
    ),
    _jc("syslog.truststore.password", Type.PASSWORD, None, HIGH, MID, "Password", "The trust store's password."),
    _jc(
        "syslog.ssl.client.auth",
        Type.STRING,
        "requested",
        MEDIUM,
        SHORT,
        "Client authentication",
        "If senders need a certificate: none, requested or required.",
        OrNull(OneOf("none", "requested", "required")),
    ),
)
UDP: Final = Settings(*_JC_COMMON)
TCP: Final = Settings(*_JC_COMMON, *_JC_TCP)
SSLTCP: Final = Settings(*_JC_COMMON, *_JC_TCP, *_JC_STORES)


@dataclass(frozen=True)
class SyslogSettings:
    """The parsed settings of a task."""

    address: Address
    topic: str
    charset: str
    zone: str
    most_bytes: int
    buffer_bytes: int
    most_connections: int
    idle_s: float
    names_ms: int | None = None
    """The time for which names of senders count; None: they are not asked for."""
    tls: Callable[[], TlsSettings] | None = None
    """Reads the settings of TLS with the files that they name; None without TLS."""
    tls_files: tuple[Path, ...] = ()

    def context(self) -> Callable[[], SSLContext] | None:
        """Return what makes the listener's TLS context, also after its files changed; None without TLS.

        Errors: ConfigError.
        """
        if self.tls is None:
            return None
        tls = self.tls
        made = RenewedContext(lambda: tls().server_context(), self.tls_files, f"the listener {self.address}")
        made.current()
        return made.current


def confluent(config: Mapping[str, str]) -> SyslogSettings:
    """The settings of Confluent's class, and of ours. Errors: ConfigError."""
    values = CONFLUENT.parse(config)
    kind = values["syslog.listener"].upper()
    tls = partial(_confluent_tls, values) if kind == "TCPSSL" else None
    paths = [values[name] for name in _PEM.values() if values[name]]
    return SyslogSettings(
        Address(kind, values["syslog.listen.address"], values["syslog.port"]),
        config.get("topic") or values["topic.prefix"] or values["topic"],
        **_common(values),
        most_connections=values["connections.max"],
        idle_s=values["syslog.idle.timeout.secs"],
        tls=tls,
        tls_files=(*map(Path, paths), *(tls().files if tls is not None else ())),
    )


def jcustenborder(config: Mapping[str, str], kind: str) -> SyslogSettings:
    """The settings of the class of this kind. Errors: ConfigError."""
    values = {"UDP": UDP, "TCP": TCP, "TCPSSL": SSLTCP}[kind].parse(config)
    tls = _store_tls(values) if kind == "TCPSSL" else None
    return SyslogSettings(
        Address(kind, values["syslog.host"] or "0.0.0.0", values["syslog.port"]),
        values["kafka.topic"],
        **_common(values),
        most_connections=values.get("syslog.max.active.sockets") or values["connections.max"],
        idle_s=values.get("syslog.timeout", 0) / 1_000,
        names_ms=values["syslog.reverse.dns.cache.ms"] if values["syslog.reverse.dns.remote.ip"] else None,
        tls=None if tls is None else lambda: tls,
        tls_files=() if tls is None else tls.files,
    )


def _common(values: Mapping[str, Any]) -> dict[str, Any]:
    charset = Encoding.of(values["syslog.charset"]).name
    limits = {"most_bytes": values["message.max.bytes"], "buffer_bytes": values["buffer.bytes"]}
    return {"charset": charset, "zone": values["timezone"], **limits}


def _confluent_tls(values: Mapping[str, Any]) -> TlsSettings:
    given = {setting.name: values[_PREFIX + setting.name] for setting in _TLS}
    for name, key in _PEM.items():
        if values[key]:
            given[name] = Password(_text(key, values[key]))
    return TlsSettings(given, _PREFIX)


def _store_tls(values: Mapping[str, Any]) -> TlsSettings:
    asks = values["syslog.ssl.client.auth"] or "none"
    if asks == "required" and not values["syslog.truststore"]:
        text = "With syslog.ssl.client.auth=required it is needed."
        raise ConfigError(Problem("syslog.truststore", None, text, "Name a store with the authority of your senders."))
    given = {setting.name: setting.default for setting in _TLS} | {
        "ssl.keystore.location": values["syslog.keystore"],
        "ssl.keystore.password": values["syslog.keystore.password"],
        "ssl.truststore.location": values["syslog.truststore"],
        "ssl.truststore.password": values["syslog.truststore.password"],
        "ssl.client.auth": asks if values["syslog.truststore"] else "none",
    }
    return TlsSettings(given, _PREFIX)


def _text(key: str, path: str) -> str:
    try:
        return read_file(path).decode("utf-8", "replace")
    except OSError as error:
        problem = Problem(key, path, f"The file cannot be read: {error.strerror or error}.", "Check its name.")
        raise ConfigError(problem) from error
