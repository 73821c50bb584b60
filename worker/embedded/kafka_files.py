"""The files of the embedded broker: `server.properties` and `log4j2.properties`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import javaproperties

OURS: Final = frozenset(
    {
        "process.roles",
        "node.id",
        "controller.quorum.voters",
        "listeners",
        "advertised.listeners",
        "controller.listener.names",
        "log.dirs",
    }
)
_DEFAULTS: Final = {
    "num.partitions": "1",
    "auto.create.topics.enable": "true",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def server_properties(log_dir: Path, port: int, controller_port: int, settings: Mapping[str, str]) -> str:
    """One node that is broker and controller on loopback, a static quorum of itself; `settings` override defaults."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(log_dir),
        **_DEFAULTS,
        **settings,
    }
    text: str = javaproperties.dumps(properties, timestamp=False)
    return text


def log4j2_properties(log_file: Path, loggers: Mapping[str, str]) -> str:
    """Log INFO into one rolling file; `loggers` have levels of their own."""
    own = "".join(
        f"logger.l{number}.name={name}\nlogger.l{number}.level={level}\n"
        for number, (name, level) in enumerate(loggers.items())
    )
    return _LOG4J.format(file=javaproperties.escape(str(log_file))) + own


# Without `shutdownHook` log4j ends at SIGTERM beside the broker and the last lines of its stop are lost.
_LOG4J: Final = """status=warn
shutdownHook=disable
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName={file}
appender.file.filePattern={file}.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=[%d] %p %m (%c)%n
appender.file.policies.type=SizeBasedTriggeringPolicy
appender.file.policies.size=50MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=3
rootLogger.level=info
rootLogger.appenderRef.file.ref=file
"""
