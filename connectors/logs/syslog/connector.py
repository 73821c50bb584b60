"""The syslog sources: one task each, which listens on one port."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from headrace import __version__
from headrace.config.problems import ConfigError, Problem
from headrace.connectors.logs.syslog import settings as syslog_settings
from headrace.connectors.logs.syslog.settings import SyslogSettings, confluent, jcustenborder
from headrace.connectors.logs.syslog.task import (
    MessageSourceTask,
    SyslogSourceTask,
    TcpValueSourceTask,
    TlsValueSourceTask,
    ValueSourceTask,
)
from headrace.plugins.contracts import Connector

_STORES: Final = {
    "syslog.ssl.keystore.location": "syslog.keystore",
    "syslog.ssl.truststore.location": "syslog.truststore",
}


class SyslogSourceConnector(Connector):
    """Listens as Confluent's connector does."""

    settings = syslog_settings.CONFLUENT
    version = __version__
    task_class = "io.confluent.connect.syslog.SyslogSourceTask"
    task: ClassVar[type[SyslogSourceTask]] = MessageSourceTask
    parsed: ClassVar[Callable[[Mapping[str, str]], SyslogSettings]] = staticmethod(confluent)

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """The problems of certificates and keys; none if a single setting is wrong: that is reported elsewhere."""
        if self.settings.problems(config):
            return []
        try:
            parsed = type(self).parsed(config)
            if parsed.tls is not None:
                parsed.tls().server_context()
        except ConfigError as error:
            return error.problems
        return []

    def most_tasks(self, config: Mapping[str, str]) -> int | None:
        """One: a port has one listener."""
        return 1

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accepts offsets that are forgotten. Errors: ValueError for others: no message comes again."""
        if any(one.get("offset") is not None for one in offsets.get("offsets") or ()):
            raise ValueError("The offsets of a syslog source can be forgotten (null), and cannot be set to others")
        return True


class UDPSyslogSourceConnector(SyslogSourceConnector):
    """Listens on UDP as the connector of J. Custenborder does."""

    settings = syslog_settings.UDP
    task_class = "com.github.jcustenborder.kafka.connect.syslog.UDPSyslogSourceTask"
    task = ValueSourceTask
    parsed = staticmethod(partial(jcustenborder, kind="UDP"))


class TCPSyslogSourceConnector(SyslogSourceConnector):
    """Listens on TCP as the connector of J. Custenborder does."""

    settings = syslog_settings.TCP
    task_class = "com.github.jcustenborder.kafka.connect.syslog.TCPSyslogSourceTask"
    task = TcpValueSourceTask
    parsed = staticmethod(partial(jcustenborder, kind="TCP"))


class SSLTCPSyslogSourceConnector(SyslogSourceConnector):
    """Listens on TLS as the connector of J. Custenborder does."""

    settings = syslog_settings.SSLTCP
    task_class = "com.github.jcustenborder.kafka.connect.syslog.SSLTCPSyslogSourceTask"
    task = TlsValueSourceTask
    parsed = staticmethod(partial(jcustenborder, kind="TCPSSL"))

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """The problems of certificates and keys, by the names that this class has for their settings."""
        return [replace(one, key=_STORES.get(one.key, one.key)) for one in super().validate(config)]
