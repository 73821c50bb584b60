"""A connection of the driver's JVM to a database, which reads Arrow batches without a Spark job.

Rows go from the result set through the getters that Spark's own JDBC source uses into Arrow: no row is ever an object
in Python (`headrace.plugins.interop.catalyst.spark_internals.ResultSets`).

Measured on two busy cores with PostgreSQL, seven columns: 5 rows 3 ms, 1,000 rows 10 ms, 100,000 rows 0.15 s.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headrace.config.worker.allowed_hosts import ALL_NAMES, AllowedHosts, HostUnknown
from headrace.connectors.jdbc.contract.dialect import JvmDriver
from headrace.connectors.jdbc.database import sql_states
from headrace.connectors.jdbc.database.drivers import missing_driver
from headrace.plugins.contracts import InterruptedBy, LoginRefused, RetriableError, uninterrupted
from headrace.plugins.interop.catalyst.spark_internals import ResultSets, current_session, thrown_in_java
from headrace.plugins.scratch import scratch_folder

BATCH_BYTES: Final = 4 << 20
"""The size of batches, once the size of a row is known."""
_FIRST_ROWS: Final = 32
"""The rows of a batch before the size of a row is known."""
_MOST_ROWS: Final = 16_384
_MOST_ALTERED: Final = 3
_FEW: Final = 50
_FEW_BYTES: Final = 8_000
"""At most so many rows and bytes come over py4j itself, which is slow for more."""


_OPTIONS: Final = """
url dbtable query prepareQuery driver partitionColumn lowerBound upperBound numPartitions queryTimeout batchsize
fetchsize truncate cascadeTruncate createTableOptions createTableColumnTypes customSchema sessionInitStatement
pushDownPredicate pushDownAggregate pushDownLimit pushDownOffset pushDownTableSample pushDownJoin keytab principal
tableComment refreshKrb5Config connectionProvider preferTimestampNTZ hint isolationLevel
"""
_SPARKS_OWN: Final = frozenset(_OPTIONS.lower().split())
"""Names that Spark takes for its own options and never passes on; no user's `connection.*` may be one."""


@dataclass(frozen=True)
class JvmAccess:
    """Everything the JVM needs to reach a database. Picklable; its text has no secret in it."""

    driver: JvmDriver
    url: str
    """The driver's URL in the form by which Spark finds its own dialect."""
    session: tuple[str, ...] = ()
    """Statements that each connection begins with."""
    isolation: tuple[str, ...] = ()
    """Statements before those of `session` that set the isolation level; empty: the database's own."""
    begins: tuple[str, ...] = ()
    """Statements that each transaction begins with."""
    about: str = ""
    """The beginning of error messages."""
    hides: bool = False
    """True if queries are secret (`query.masked`): the database's errors quote them."""

    hosts: tuple[str, ...] = ()
    """The URL's hosts."""
    allowed: AllowedHosts = ALL_NAMES

    def check_hosts(self) -> None:
        """Checks the hosts and their addresses against the worker's allowed ones; the driver resolves names again.

        Errors: ConfigError, RetriableError.
        """
        try:
            for host in self.hosts:
                self.allowed.check("connection.url", host)
        except HostUnknown as error:
            raise RetriableError(str(error)) from error

    def options(self, fetch_size: int, transaction: tuple[str, ...] = ()) -> dict[str, str]:
        """Options of Spark's JDBC source. Invariant 6: secrets among them; Spark shows none of a relation's.

        `transaction`: statements that begin it, the isolation level among them.
        """
        statements = (*(transaction or self.isolation), *self.session, *self.begins)
        begun = {"sessionInitStatement": "; ".join(statements)} if statements else {}
        own = {"driver": self.driver.class_name, "fetchsize": str(fetch_size), "pushDownPredicate": "false"}
        given = {k: v for k, v in self.driver.plain_properties().items() if k.lower() not in _SPARKS_OWN}
        return {**given, **own, **begun}


class JvmLink:
    """One connection, opened when it is first used; for one thread at a time."""

    def __init__(
        self,
        access: JvmAccess,
        interrupted_by: InterruptedBy = uninterrupted,
    ) -> None:
        """`interrupted_by`: as `TaskContext.interrupted_by`."""
        self._access = access
        self._interrupted_by = interrupted_by
        self._connection: Any = None
        self._tools: ResultSets | None = None
        self._row_bytes: dict[str, int] = {}
        self._altered: dict[str, int] = {}
        """Per shape, the reads in a row that failed with an AlteredError."""
        self.failures = 0
        """The count of retriable errors; its owner resets it."""
        self._folder = scratch_folder("jdbc", shared_memory=True)

    def read(self, query: str, types: StructType, shape: str, fetch_size: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of the query in its order; `shape` names the types, `rows` estimates their number.

        Errors: RetriableError, JvmReadError.
        """
        try:
            tools = self._opened()
            _execute(self._connection, self._access.begins)
            statement = self._connection.createStatement()  # a prepared one would have a parameter for each ?
            statement.setFetchSize(fetch_size)
            with self._interrupted_by(self._interrupt(statement)):
                yield from self._batches(tools, tools.rows(statement.executeQuery(query), shape, types), shape, rows)
            statement.close()
            self._connection.commit()
            self._altered.pop(shape, None)
        except BaseException as error:
            self._drop()  # in whatever state it is
            if not isinstance(error, Py4JJavaError):
                raise
            found = self._settled(classified(error, self._access), shape)
            self.failures += isinstance(found, RetriableError)
            raise found from (None if self._access.hides else error)

    def close(self) -> None:
        """Closes the connection."""
        self._drop()
        self._folder.cleanup()

    def _settled(self, error: Exception, shape: str) -> Exception:
        """Makes an AlteredError fatal after some in a row: columns are described anew, so the query itself is wrong."""
        if not isinstance(error, AlteredError):
            return error
        self._altered[shape] = self._altered.get(shape, 0) + 1
        return error if self._altered[shape] < _MOST_ALTERED else JvmReadError(str(error))

    def _opened(self) -> ResultSets:
        session = _session()
        if self._tools is None or self._tools.session is not session:
            self._connection, self._tools = None, ResultSets(session, self._access.url)
        if self._connection is None:
            self._access.check_hosts()
            connection = self._tools.connect(self._access.options(0))
            _execute(connection, (*self._access.isolation, *self._access.session))
            connection.setAutoCommit(False)  # PostgreSQL's driver reads all rows at once otherwise
            self._connection = connection
        return self._tools

    def _interrupt(self, statement: Any) -> Callable[[], None]:
        """The call that ends a statement; PostgreSQL's `cancel` has no effect between the first rows and the last."""
        is_postgresql = self._access.driver.class_name.startswith("org.postgresql.")
        cancel: Callable[[], None] = self._connection.cancelQuery if is_postgresql else statement.cancel
        return cancel

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Py4JError, OSError):
                connection.close()

    def _batches(self, tools: ResultSets, rows: Any, shape: str, count: int) -> Iterator[pa.RecordBatch]:
        path, at_once = os.path.join(self._folder.name, "batch"), 0
        while True:
            if at_once != self._rows_at_once(shape):
                at_once = self._rows_at_once(shape)
                batches = tools.arrow(rows, shape, at_once)
            if not batches.hasNext():
                return
            few = count <= _FEW and count * self._row_bytes.get(shape, _FEW) < _FEW_BYTES
            stream = bytes(batches.next()) if few else tools.through_file(batches, path)
            batch = pa.ipc.open_stream(stream).read_next_batch()
            self._row_bytes[shape] = max(1, batch.nbytes // batch.num_rows)
            yield batch

    def _rows_at_once(self, shape: str) -> int:
        known = self._row_bytes.get(shape)
        if known is None:
            return _FIRST_ROWS
        # In powers of two: a new size is not worth its while for every batch.
        return max(1, min(_MOST_ROWS, 1 << (BATCH_BYTES // known).bit_length() >> 1))


def _execute(connection: Any, statements: Sequence[str]) -> None:
    for text in statements:
        statement = connection.createStatement()
        statement.execute(text)
        statement.close()


SNAPSHOT_GONE: Final = ("22023", "42704", "55000")
"""States of an import whose exporting transaction has ended."""
_ALTERED: Final = ("42P01", "42S02", "42703", "42S22", "0A000")
"""States of a table or column that was dropped or retyped after the plan was made."""


class AlteredError(RetriableError):
    """A table or column has changed since the plan was made."""


class JvmReadError(Exception):
    """An error of the database or of the JVM's driver that no retry mends; the task fails."""


class JvmLoginRefused(JvmReadError, LoginRefused):
    """The database refuses user or password, as in `DatabaseLoginRefused`."""


def classified(error: Exception, access: JvmAccess, passing: tuple[str, ...] = ()) -> Exception:
    """Turns an error of the database into a RetriableError or JvmReadError; returns others as they are.

    `passing`: further retriable SQLSTATEs.
    """
    said = _sql_error(error)
    if said is None:
        lacking = _missing_class(error)
        return error if lacking is None else JvmReadError(f"{access.about}: {missing_driver(lacking)}")
    given, code, text = said
    state = sql_states.jvm_state(access.driver.class_name, given, code, text)
    where = f"SQLSTATE {state or 'unknown'}" + (f", code {code}" if code else "")
    if access.hides:
        text = "it refuses the hidden query, which its message may quote"
    message = f"{access.about}: {text} [{where}]"
    if state.startswith("28"):
        return JvmLoginRefused(message)
    if state in _ALTERED:
        return AlteredError(message)
    if state in ("", *passing) or sql_states.is_retriable_state(state):
        return RetriableError(message)
    return JvmReadError(message)


def _sql_error(error: Exception) -> tuple[str, int, str] | None:
    """SQLSTATE, code and message of the SQLException among a Java error's causes."""
    cause = thrown_in_java(error)
    for _ in range(20):
        if cause is None:
            return None
        if _is_sql(cause):
            text = " ".join((cause.getMessage() or "").split())
            return cause.getSQLState() or "", int(cause.getErrorCode()), text
        cause = cause.getCause()
    return None


def _missing_class(error: Exception) -> str | None:
    """The class of a ClassNotFoundException; None for other errors."""
    cause = error.java_exception if isinstance(error, Py4JJavaError) else None
    if cause is None or cause.getClass().getName() != "java.lang.ClassNotFoundException":
        return None
    return str(cause.getMessage())


def _is_sql(cause: Any) -> bool:
    known = cause.getClass()
    while known is not None:
        if known.getName() == "java.sql.SQLException":
            return True
        known = known.getSuperclass()
    return False


_KEPT: Final[WeakValueDictionary[str, JvmLink]] = WeakValueDictionary()


def keep(name: str, link: JvmLink) -> None:
    """Makes readers of this name in this process read through `link`, as long as its task holds it."""
    _KEPT[name] = link


def kept(name: str) -> JvmLink | None:
    """The link of this name; None if its task is gone or in another process."""
    return _KEPT.get(name)


def _session() -> SparkSession:
    if (session := current_session()) is None:
        raise RetriableError("Spark is starting")
    return session
