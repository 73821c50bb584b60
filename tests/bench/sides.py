"""The sides that are compared: Apache Connect as shipped, Apache Connect tuned, and Headrace with its defaults."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.plugins.interop.jvm.jars import find_java

JSON = "org.apache.kafka.connect.json.JsonConverter"
MIRROR = "org.apache.kafka.connect.mirror."
APACHE_CONNECT = "4.3.1"
Mode = Literal["standalone", "distributed"]
# Every side runs with these: what a record costs depends on its acknowledgement, so no side may have it cheaper.
SAME_FOR_ALL = {
    "key.converter": JSON,
    "key.converter.schemas.enable": "true",
    "value.converter": JSON,
    "value.converter.schemas.enable": "true",
    "offset.flush.interval.ms": "10000",
    "producer.acks": "all",
    "producer.enable.idempotence": "true",
    "producer.compression.type": "none",
}
# Apache's kafka-run-class.sh and connect-standalone.sh start the JVM with exactly these.
HEAP = ("-Xms256M", "-Xmx2G")
JVM = (
    *("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
)
# Decided: source batch.size 5000, five requests in flight and the parallel collector, because batch.size 20000 with G1
# and one in flight was clearly slower (about 300k rec/s against 520-645k while the machine was quiet). Among 2000 and
# 5000 and the two collectors the one to three quiet runs each do not separate. Loses: perhaps memory and the sink,
# where one run of these settings stayed below the defaults; not settled, try again on a quiet machine.
JVM_TUNED = ("-server", "-XX:+UseParallelGC", "-Djava.awt.headless=true")
TUNED_PRODUCER = {
    "batch.size": "1048576",
    "linger.ms": "20",
    "buffer.memory": "134217728",
    "max.request.size": "2097152",
    # Order is kept: the producer is idempotent.
    "max.in.flight.requests.per.connection": "5",
}
LOG4J2 = """\
rootLogger.level = INFO
rootLogger.appenderRef.stdout.ref = STDOUT
appender.stdout.type = Console
appender.stdout.name = STDOUT
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %X{connector.context}%m (%c:%L)%n
"""


@dataclass(frozen=True)
class Side:
    """One of the things compared: its process and the settings only it gets."""

    name: str
    jars: tuple[Path, ...] = ()
    jvm: tuple[str, ...] = JVM
    worker: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)
    sink: Mapping[str, str] = field(default_factory=dict)
    mirror: Mapping[str, str] = field(default_factory=dict)

    def settings_of(self, connector: Mapping[str, str]) -> Mapping[str, str]:
        """The settings that this side adds to a connector of this kind."""
        if connector["connector.class"].startswith(MIRROR):
            return self.mirror
        return self.sink if "topics" in connector else self.source

    def command(self, directory: Path, mode: Mode = "standalone") -> list[str]:
        """The start of the command line; the properties files follow."""
        if not self.jars:
            return [str(Path(sys.executable).with_name(f"connect-{mode}"))]
        (directory / "log4j2.properties").write_text(LOG4J2)
        classpath = os.pathsep.join(str(jar) for jar in self.jars)
        log = f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}"
        return [
            str(find_java().path),
            *HEAP,
            *self.jvm,
            log,
            "-cp",
            classpath,
            f"org.apache.kafka.connect.cli.Connect{mode.capitalize()}",
        ]


def sides(jars: list[Path]) -> list[Side]:
    """Apache Connect by default, Apache Connect tuned, Headrace; in the order of the alternation."""
    classpath = tuple(jars)
    return [
        Side("apache-default", classpath),
        Side(
            "apache-tuned",
            classpath,
            JVM_TUNED,
            worker={"plugin.discovery": "service_load"},
            source={
                "batch.size": "5000",
                **{f"producer.override.{key}": value for key, value in TUNED_PRODUCER.items()},
            },
            # Decided: for MirrorMaker 2 the same 5000 and 1 MiB, because of the settings tried (batches of 256 KiB to
            # 2 MiB, polls of 500 to 20000, one and five in flight, linger 5 to 50, G1) none was faster: 550-780k rec/s
            # of 170 bytes, 157-470k for the others with G1, smaller or larger batches, or one in flight. Loses: some
            # single runs of the others lay within the noise of it.
            mirror={
                **{f"producer.override.{key}": value for key, value in TUNED_PRODUCER.items()},
                "producer.override.max.request.size": "4194304",
                "source.consumer.max.poll.records": "5000",
                "source.consumer.max.partition.fetch.bytes": "4194304",
                "source.consumer.receive.buffer.bytes": "1048576",
            },
            sink={
                "consumer.override.max.poll.records": "5000",
                "consumer.override.max.partition.fetch.bytes": "4194304",
                "consumer.override.receive.buffer.bytes": "1048576",
            },
        ),
        Side("headrace"),
    ]
