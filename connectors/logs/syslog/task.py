"""The task of a syslog source: it listens, and each plan takes messages that have arrived.

Messages are counted, and their number is the only offset. By it a batch that failed is read again. After a restart it
names nothing: what had arrived and was not in Kafka went with the process.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.connectors.logs.syslog.inbox import Inbox
from headrace.connectors.logs.syslog.listening import Listener
from headrace.connectors.logs.syslog.messages import PARSED, parse
from headrace.connectors.logs.syslog.names import Names
from headrace.connectors.logs.syslog.settings import SyslogSettings, confluent, jcustenborder
from headrace.plugins.contracts import (
    ArrowReader,
    Limit,
    PartitionResult,
    Place,
    Plan,
    RetriableError,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.extensions import Measured, PacedSource, SourceProgress
from headrace.plugins.records import Records, source_records
from headrace.plugins.samples import Sample
from headrace.plugins.schema import OPTIONAL_STRING, STRING, TIMESTAMP, Field, Schema, SchemaType

NUMBER: Final = "message"
_OFFSET: Final = pa.struct([(NUMBER, pa.int64())])
_ROW: Final = PARSED.append(pa.field("hostname", pa.string()))
_INT: Final = Schema(SchemaType.INT32, optional=True)
_TIME: Final = Schema(SchemaType.INT64, optional=True, name=TIMESTAMP, version=1)
_PAIRS: Final = Schema(SchemaType.MAP, optional=True, key_schema=STRING, value_schema=STRING)
_ELEMENT: Final = Schema(
    SchemaType.STRUCT,
    name="io.confluent.syslog.StructuredData",
    fields=(Field("id", OPTIONAL_STRING), Field("structuredDataElements", _PAIRS)),
)
_ELEMENTS: Final = Schema(SchemaType.ARRAY, optional=True, value_schema=_ELEMENT)
_MESSAGE: Final = Schema(
    SchemaType.STRUCT,
    name="io.confluent.syslog.Message",
    fields=tuple(
        Field(name, schema)
        for name, schema in {
            "name": OPTIONAL_STRING,
            "type": STRING,
            "message": OPTIONAL_STRING,
            "host": OPTIONAL_STRING,
            "version": _INT,
            "level": _INT,
            "tag": OPTIONAL_STRING,
            "extension": _PAIRS,
            "severity": OPTIONAL_STRING,
            "appName": OPTIONAL_STRING,
            "facility": _INT,
            "remoteAddress": OPTIONAL_STRING,
            "rawMessage": OPTIONAL_STRING,
            "processId": OPTIONAL_STRING,
            "messageId": OPTIONAL_STRING,
            "structuredData": _ELEMENTS,
            "deviceVendor": OPTIONAL_STRING,
            "deviceProduct": OPTIONAL_STRING,
            "deviceVersion": OPTIONAL_STRING,
            "deviceEventClassId": OPTIONAL_STRING,
            "date": _TIME,
            "timestamp": _TIME,
            "receivedDate": _TIME,
        }.items()
    ),
)
_PACKAGE: Final = "com.github.jcustenborder.kafka.connect.syslog"
_KEY: Final = Schema(SchemaType.STRUCT, name=f"{_PACKAGE}.SyslogKey", fields=(Field("remote_address", STRING),))
_VALUE: Final = Schema(
    SchemaType.STRUCT,
    name=f"{_PACKAGE}.SyslogValue",
    fields=(
        Field("date", _TIME),
        Field("facility", _INT),
        Field("host", OPTIONAL_STRING),
        Field("level", _INT),
        Field("message", OPTIONAL_STRING),
        Field("charset", OPTIONAL_STRING),
        Field("remote_address", OPTIONAL_STRING),
        Field("hostname", OPTIONAL_STRING),
    ),
)


class SyslogSourceTask(SourceTask, PacedSource, SourceProgress, Measured):
    """Listens on one port."""

    place = Place.WORKER_PROCESS
    coalesces = True
    row_type = _ROW
    offset_type = _OFFSET
    _listener: Listener | None = None
    _names: Names | None = None

    @abstractmethod
    def parsed(self, config: Mapping[str, str]) -> SyslogSettings:
        """The settings. Errors: ConfigError."""

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Begins to listen. Errors: RetriableError if the port is taken; ConfigError."""
        self._settings = settings = self.parsed(config)
        self._connector = context.connector
        self._base: int | None = None
        self._inbox = Inbox(settings.buffer_bytes)
        self._names = None if settings.names_ms is None else Names(settings.names_ms)
        self._listener = Listener(
            settings.address,
            self._inbox,
            context.wake,
            settings.context(),
            settings.most_bytes,
            settings.most_connections,
            settings.idle_s,
        )

    def topics(self) -> Sequence[str]:
        """The one topic."""
        return (self._settings.topic,)

    def partitions(self) -> Sequence[SourcePartition]:
        """The address that it listens on."""
        return [{"host": self._settings.address.host}]

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """The messages that have arrived after the stored one, within the limit. Errors: RetriableError."""
        assert self._listener is not None
        if not self._listener.is_alive:
            raise RetriableError(f"Nothing listens on {self._settings.address} any more; restart the task.")
        number = int((after[0] or {}).get(NUMBER) or 0)
        if self._base is None:
            self._base = number
        self._release(number)
        messages = self._inbox.messages(limit.rows, limit.bytes)
        if messages is None:
            return None
        self._taken = _Messages(messages, number, self._settings, self._names)
        split = Split(self.partitions()[0], {NUMBER: number}, {NUMBER: number + messages.num_rows})
        return Plan((split,), messages.num_rows, messages.nbytes)

    @property
    def tells_of_news(self) -> bool:
        """True: each arrival wakes the task."""
        return True

    def reader(self, plan: Plan) -> ArrowReader:
        """A reader of the messages that the last plan took."""
        return self._taken

    def committed(self, reached: Sequence[PartitionResult]) -> None:
        """Forgets messages whose offsets are stored."""
        for one in reached:
            if one.source_offset is not None:
                self._release(int(one.source_offset[NUMBER]))

    def _release(self, number: int) -> None:
        if self._base is not None and self._listener is not None:
            was_full = not self._inbox.has_room
            self._inbox.release(number - self._base)
            if was_full:
                self._listener.made_room()

    def samples(self) -> Iterable[Sample]:
        """Counts of what arrived, and of what was lost."""
        if self._listener is None:
            return
        counts, labels = self._inbox.counts, {"connector": self._connector}
        for name, value, text in (
            ("messages_received", counts.received, "Messages that arrived"),
            ("messages_dropped", counts.dropped, "Datagrams dropped because Kafka took fewer than arrived"),
            ("messages_truncated", counts.truncated, "Messages cut at message.max.bytes"),
            ("connections_refused", counts.refused, "Connections that were refused or broken off"),
        ):
            yield Sample(f"kafka_connect_syslog_{name}_total", labels, value, text)

    def stop(self) -> None:
        """Closes the port."""
        if self._listener is not None:
            self._listener.close()
        if self._names is not None:
            self._names.close()


class MessageSourceTask(SyslogSourceTask):
    """Makes records as Confluent's connector."""

    def parsed(self, config: Mapping[str, str]) -> SyslogSettings:
        """The settings. Errors: ConfigError."""
        return confluent(config)

    @staticmethod
    def records(frame: DataFrame) -> Records:
        """Each message is a struct of all that the three formats know."""
        others = {"remoteAddress": F.col("remote"), "rawMessage": F.col("raw"), "receivedDate": _time("received")}
        times = {"date": _time("date"), "timestamp": F.coalesce(_time("date"), _time("received"))}
        made = others | times
        members = (made.get(one.name, F.col(one.name)).alias(one.name) for one in _MESSAGE.fields)
        return source_records(frame, F.col("topic"), F.struct(*members), _MESSAGE)


class ValueSourceTask(SyslogSourceTask):
    """Makes records as the connectors of J. Custenborder."""

    kind = "UDP"

    def parsed(self, config: Mapping[str, str]) -> SyslogSettings:
        """The settings. Errors: ConfigError."""
        return jcustenborder(config, self.kind)

    def records(self, frame: DataFrame) -> Records:
        """Each message is a struct; its key is the sender's address."""
        made = {
            "date": _time("date"),
            "message": F.coalesce(F.col("message"), F.col("raw")),
            "charset": F.lit(self._settings.charset.upper()),
            "remote_address": F.col("remote"),
        }
        members = (made.get(one.name, F.col(one.name)).alias(one.name) for one in _VALUE.fields)
        key = F.struct(F.col("remote").alias("remote_address"))
        topic = F.lit(self._settings.topic)
        return source_records(frame, topic, F.struct(*members), _VALUE, key=key, key_schema=_KEY)


class TcpValueSourceTask(ValueSourceTask):
    """As `ValueSourceTask`, over TCP."""

    kind = "TCP"


class TlsValueSourceTask(ValueSourceTask):
    """As `ValueSourceTask`, over TLS."""

    kind = "TCPSSL"


@dataclass(frozen=True)
class _Messages:
    """Messages that a plan took, after `number` others."""

    arrived: pa.RecordBatch
    number: int
    settings: SyslogSettings
    names: Names | None

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """The messages, parsed, in batches of some thousands."""
        for at in range(0, self.arrived.num_rows, _BATCH):
            part = self.arrived.slice(at, _BATCH)
            rows = parse(part, self.settings.charset, self.settings.zone)
            numbers = pa.array(np.arange(self.number + at + 1, self.number + at + part.num_rows + 1))
            offsets = pa.StructArray.from_arrays([numbers], fields=list(_OFFSET))
            names = self._hostnames(rows.column("remote"))
            yield rows.append_column("hostname", names).append_column("source_offset", offsets)

    def _hostnames(self, remotes: pa.StringArray) -> pa.StringArray:
        if self.names is None:
            return remotes
        addresses = pc.unique(remotes)
        known = self.names.of(addresses.to_pylist())
        return pa.array([known[one] for one in addresses.to_pylist()], pa.string()).take(
            pc.index_in(remotes, addresses)
        )


_BATCH: Final = 10_000


def _time(name: str) -> Column:
    return F.timestamp_millis(F.col(name))
