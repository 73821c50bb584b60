"""Kafka's offsets in the database that the records go to, so that both change in one transaction: exactly once.

| column | |
|---|---|
| `connector`, `topic`, `kafka_partition` | the key |
| `kafka_offset` | of the last record that is written or needs no write; null before the first |
| `epoch` | raised by each task that takes the partition; a task with an older one writes no more |
| `topic_id` | Kafka's id of the topic, new after it was deleted and made again; null if unknown |

A writer first locks its partitions' rows, checks that the epoch is still its own, leaves out records up to the stored
offset, and stores the new one. So a writer that continues after its batch was given up (a cancelled job's) and the one
that tries the batch again write each record once between them, in order.

A task knows the last offset that it has written. If the table has a smaller one, the database has lost committed
transactions (a failover to a lagging standby, a restored backup): the missing records are not skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql import quoted_name

from headrace.connectors.jdbc.contract.tables import TableId
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError
from headrace.plugins.contracts import RetriableError, TopicPartition

log = logging.getLogger(__name__)

_WENT_BACK: Final = "the database has gone back, as by a failover; a task that is started again writes what is missing"
_UNTOLD: Final[Mapping[str, str]] = MappingProxyType({})


class Fence(NamedTuple):
    """A task's right to write a partition."""

    epoch: int
    offset: int | None
    """The offset of the last written record."""


class _Row(NamedTuple):
    epoch: int
    offset: int | None
    topic_id: str | None


class FencedError(RetriableError):
    """Another task has taken a partition."""


class GoneBack(RetriableError):
    """The database has lost committed records. The task has to begin again at the stored offset."""


class OffsetTable:
    """The offsets of one connector in one database."""

    def __init__(self, database: Database, name: TableId, connector: str) -> None:
        self._database = database
        self._connector = connector
        self._id = name
        # Topics that differ in case only are two topics, whatever the server's collation says.
        binary = mysql.VARCHAR(249, charset="utf8mb4", collation="utf8mb4_bin")
        text = sa.String(249).with_variant(binary, "mysql", "mariadb")
        self._table = sa.Table(
            quoted_name(name.table, quote=True),
            sa.MetaData(),
            sa.Column("connector", text, primary_key=True),
            sa.Column("topic", text, primary_key=True),
            sa.Column("kafka_partition", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("kafka_offset", sa.BigInteger),
            sa.Column("epoch", sa.BigInteger, nullable=False),
            sa.Column("topic_id", sa.String(36)),
            schema=name.schema or name.catalog,
            mysql_engine="InnoDB",  # others have no transactions
            mariadb_engine="InnoDB",
        )

    def create(self) -> None:
        """Creates the table if it is missing. Errors: DatabaseAway; DatabaseError with the statement to run."""
        if self.exists():
            return
        statement = self.creation
        log.info("%s: %s", self._database.access, statement)
        try:
            with self._database.begin() as connection:
                self._table.create(connection)
        except DatabaseError as error:
            if not self.exists():
                remedy = f"Let an administrator run: {statement}; or set offsets.table empty: at least once"
                raise DatabaseError(f"{error}. {remedy}") from error

    @property
    def creation(self) -> str:
        """The statement that creates the table."""
        return str(CreateTable(self._table).compile(self._database.engine)).strip()

    def exists(self) -> bool:
        """True if the table exists. Errors: DatabaseAway, DatabaseError."""
        with self._database.connect() as connection:
            return sa.inspect(connection).has_table(self._table.name, self._table.schema)

    def take(
        self,
        partitions: Collection[TopicPartition],
        ids: Mapping[str, str] = _UNTOLD,
        held: Mapping[TopicPartition, Fence] | None = None,
    ) -> dict[TopicPartition, Fence]:
        """Takes these partitions for the caller and fences their former owners off.

        `ids`: the topics' ids; offsets of an earlier topic of the same name are discarded. `held`: the caller's fences,
        which must still be valid. Errors: FencedError, DatabaseAway, DatabaseError.
        """
        with self._database.begin() as connection:
            known = self._locked(connection, partitions)
            if held is not None:
                self._check(held, known)
            return {one: self._taken(connection, one, known.get(one), ids) for one in sorted(partitions)}

    def _check(self, held: Mapping[TopicPartition, Fence], known: Mapping[TopicPartition, _Row]) -> None:
        for partition, fence in held.items():
            row = known.get(partition)
            self.check_fence(partition, fence, None if row is None else row.epoch)

    def check_fence(self, partition: TopicPartition, fence: Fence, epoch: int | None) -> None:
        """Refuses a fence whose epoch is not the stored one.

        Errors: FencedError; DatabaseError of a GoneBack for a lower stored epoch: the database has lost the fence.
        """
        if epoch is None or epoch < fence.epoch:  # they only rise
            raise DatabaseError(
                f"{self._id} does not know any more that this task took {partition.topic}-{partition.partition}: "
                f"{_WENT_BACK}"
            ) from self._gone_back()
        if epoch > fence.epoch:
            raise self.fenced(partition)

    def fenced(self, partition: TopicPartition) -> FencedError:
        """The error for a partition that another task has taken."""
        return FencedError(
            f"{self._id} says that {partition.topic}-{partition.partition} is another task's: "
            "two Connect clusters that write into one database need connectors of different names"
        )

    def check_kept(self, partition: TopicPartition, written: int | None, stored: int | None) -> None:
        """Raises if the database has lost records up to `written`.

        Errors: DatabaseError of a GoneBack, so that the task ends and another begins at the stored offset.
        """
        if written is not None and (stored is None or stored < written):
            raise DatabaseError(
                f"{self._id} has {partition.topic}-{partition.partition} written up to offset {stored}, but it was "
                f"written up to {written}: {_WENT_BACK}"
            ) from self._gone_back()

    def _gone_back(self) -> GoneBack:
        return GoneBack(f"{self._database.access} has lost what was committed")

    def _taken(
        self, connection: Connection, partition: TopicPartition, was: _Row | None, ids: Mapping[str, str]
    ) -> Fence:
        now = ids.get(partition.topic)
        if was is None:
            try:
                connection.execute(self._inserted(partition, None, now))
            except sa.exc.IntegrityError as error:
                raise DatabaseAway(f"another task takes {partition.topic}-{partition.partition} now") from error
            return Fence(1, None)
        offset = was.offset
        if now is not None and was.topic_id not in (None, now):
            log.error(
                "%s: %s-%d, which was written up to offset %s, was deleted and made again: it is written from its "
                "beginning", self._database.access, *partition, offset,
            )  # fmt: skip
            offset = None
        raised = {"epoch": was.epoch + 1, "kafka_offset": offset, "topic_id": now or was.topic_id}
        connection.execute(self._table.update().where(self._is(partition)).values(raised))
        return Fence(was.epoch + 1, offset)

    def lock(self, connection: Connection, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Fence]:
        """The stored rows of these partitions, locked until the transaction ends."""
        return {one: Fence(row.epoch, row.offset) for one, row in self._locked(connection, partitions).items()}

    def stored(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets of the last written records of these partitions. Errors: DatabaseAway, DatabaseError."""
        with self._database.connect() as connection:
            rows = self._rows(connection, self._query(partitions))
        return {partition: row.offset for partition, row in rows.items() if row.offset is not None}

    def _locked(self, connection: Connection, partitions: Collection[TopicPartition]) -> dict[TopicPartition, _Row]:
        return self._rows(connection, self._query(partitions).with_for_update())

    @staticmethod
    def _rows(connection: Connection, query: sa.Select[Any]) -> dict[TopicPartition, _Row]:
        return {TopicPartition(topic, number): _Row(*stored) for topic, number, *stored in connection.execute(query)}

    def _query(self, partitions: Collection[TopicPartition]) -> sa.Select[Any]:
        table = self._table
        of_topic: dict[str, list[int]] = {}
        for partition in sorted(partitions):
            of_topic.setdefault(partition.topic, []).append(partition.partition)
        # Not as tuples: MariaDB would walk, and lock, all rows of the connector.
        places = [
            sa.and_(table.c.topic == topic, table.c.kafka_partition.in_(numbers)) for topic, numbers in of_topic.items()
        ]
        query = (
            sa.select(table.c.topic, table.c.kafka_partition, table.c.epoch, table.c.kafka_offset, table.c.topic_id)
            .where(table.c.connector == self._connector, sa.or_(sa.false(), *places))
            .order_by(table.c.topic, table.c.kafka_partition)
        )
        for dialect in ("mysql", "mariadb"):  # which walk a small table as a whole otherwise
            query = query.with_hint(table, "FORCE INDEX (PRIMARY)", dialect)
        return query

    def store(self, connection: Connection, offsets: Mapping[TopicPartition, int]) -> None:
        """Stores these offsets as written, within the transaction."""
        for partition, offset in sorted(offsets.items()):
            connection.execute(self._table.update().where(self._is(partition)).values(kafka_offset=offset))

    def reach(
        self,
        held: Mapping[TopicPartition, Fence],
        positions: Mapping[TopicPartition, int],
        written: Mapping[TopicPartition, int],
    ) -> None:
        """Stores that all records before these positions are done, those that need no write among them.

        Errors: FencedError, DatabaseAway, DatabaseError.
        """
        with self._database.begin() as connection:
            known = self._locked(connection, positions)
            self._check({partition: held[partition] for partition in positions}, known)
            for partition, row in known.items():
                self.check_kept(partition, written.get(partition), row.offset)
            ends = {partition: position - 1 for partition, position in positions.items()}
            stored = {partition: -1 if row.offset is None else row.offset for partition, row in known.items()}
            self.store(connection, {partition: end for partition, end in ends.items() if end > stored[partition]})

    def set(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Sets the connector's positions for an operator; None deletes a partition's.

        Errors: DatabaseAway, DatabaseError.
        """
        with self._database.begin() as connection:
            known = self.lock(connection, positions)
            for partition, position in sorted(positions.items()):
                offset = position - 1 if position else None
                if position is None:
                    connection.execute(self._table.delete().where(self._is(partition)))
                elif partition in known:
                    changed = {"kafka_offset": offset, "epoch": known[partition].epoch + 1}
                    connection.execute(self._table.update().where(self._is(partition)).values(changed))
                else:
                    connection.execute(self._inserted(partition, offset))

    def clear(self) -> None:
        """Deletes the offsets of all partitions of the connector. Errors: DatabaseAway, DatabaseError."""
        with self._database.begin() as connection:
            connection.execute(self._table.delete().where(self._table.c.connector == self._connector))

    def _is(self, partition: TopicPartition) -> sa.ColumnElement[bool]:
        columns = self._table.c
        return sa.and_(
            columns.connector == self._connector,
            columns.topic == partition.topic,
            columns.kafka_partition == partition.partition,
        )

    def _inserted(self, partition: TopicPartition, offset: int | None, topic_id: str | None = None) -> sa.Insert:
        return self._table.insert().values(
            connector=self._connector,
            topic=partition.topic,
            kafka_partition=partition.partition,
            kafka_offset=offset,
            epoch=1,
            topic_id=topic_id,
        )
