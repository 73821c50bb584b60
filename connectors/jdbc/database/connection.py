"""Connects to a connector's database: SQLAlchemy's engine with a bounded pool, and errors that people can use."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import sqlalchemy
from sqlalchemy import Connection, Engine, RootTransaction, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from headrace.config.problems import ConfigError
from headrace.config.worker.allowed_hosts import ALL_NAMES, AllowedHosts, HostUnknown
from headrace.connectors.jdbc.contract.dialect import Dialect
from headrace.connectors.jdbc.contract.source_sql import SourceSql
from headrace.connectors.jdbc.contract.url import ALLOWED_SCHEMES, DatabaseAccess, subprotocol_of
from headrace.connectors.jdbc.database import sql_states
from headrace.connectors.jdbc.database.installed_dialects import dialect_for
from headrace.plugins.contracts import InterruptedBy, LoginRefused, RetriableError, uninterrupted
from headrace.plugins.path_bounds import allowed_paths, check_allowed
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

CONNECTIONS: Final = 4
"""The most connections of one task."""
_LOGIN_SECONDS: Final = 40
_TLS: Final = re.compile(r"(?i)\bssl\b|certificate|channel binding")
_QUOTED: Final = re.compile(r"""(?<!\w)'[^']*'|"[^"]*\"""")
"""Names of hosts, users and databases: they say nothing about the cause."""
_TLS_REMEDY: Final = (
    "Check the server's certificate, and the parameters of TLS: sslmode and sslrootcert (PostgreSQL), sslMode and "
    "serverSslCert (MariaDB)"
)
_BLOCKED: Final = "JDBC_CONNECTION_URL_BLOCKED_PARAMS"
_DEFAULT_SCHEMES: Final = ("postgresql", "mysql", "mariadb", "sqlserver", "oracle", "sqlite")


class DatabaseError(Exception):
    """An error of the database that no retry mends; the task fails."""


class DatabaseLoginRefused(DatabaseError, LoginRefused):
    """The database refuses user or password. The task fails, and starts anew with the variables' new values."""


class DatabaseAway(RetriableError):
    """A retriable error of the database."""


class Database:
    """The connections to one database. Picklable, without what is open."""

    def __init__(
        self,
        access: DatabaseAccess,
        dialect: Dialect,
        attempts: int = 3,
        backoff_ms: int = 10_000,
        hides: bool = False,
        creates: bool = True,
        allowed: tuple[str, ...] = (),
        hosts: AllowedHosts = ALL_NAMES,
        reads_only: bool = False,
        *,
        login_seconds: int = _LOGIN_SECONDS,
        stopping: StopToken | None = None,
        interrupted_by: InterruptedBy = uninterrupted,
    ) -> None:
        """`creates`: true if connecting may create a database file; false for a source.

        `allowed`: the worker's `file.allowed.paths`. Links may change, so each connection checks the files.

        `hosts`: the allowed ones. Each connection resolves and judges them first; the driver resolves again.

        `reads_only`: each transaction refuses to write.

        `stopping`: ends every wait for the database.

        `interrupted_by`: as `TaskContext.interrupted_by`.
        """
        self.access = access
        self.dialect = dialect
        self.attempts = attempts
        self.backoff_ms = backoff_ms
        self.hides = hides
        """True if queries are secret (`query.masked`): the database's errors quote them."""
        self._creates = creates
        self._allowed = allowed
        self._hosts = hosts
        self._reads_only = reads_only
        self._login_seconds = login_seconds
        self._stopping = stopping or StopToken()
        self._interrupted_by = interrupted_by
        self._engine: Engine | None = None

    @classmethod
    def of(
        cls,
        config: Mapping[str, Any],
        worker: Mapping[str, Any],
        *,
        creates: bool = True,
        reads_only: bool = False,
        login_seconds: int = _LOGIN_SECONDS,
        stopping: StopToken | None = None,
        interrupted_by: InterruptedBy = uninterrupted,
    ) -> Database:
        """The database of a connector's config under the worker's settings; opens nothing. The rest as of `__init__`.

        Errors: ValueError for a URL that is invalid, not allowed by this worker or served by no dialect, and for
        blocked or wrong parameters.
        """
        name = str(config.get("dialect.name") or "")
        if subprotocol := subprotocol_of(config.get("connection.url") or ""):
            dialect_for(subprotocol, name)  # first: how another database's URL goes on is not known
        access = DatabaseAccess.of(config)
        dialect = dialect_for(access.url.subprotocol, name)
        check_scheme(access, worker)
        if names := blocked_parameters(access):
            raise ValueError(f"{BLOCKED_TEXT} '{names[0]}'; this worker's environment forbids it by {_BLOCKED}")
        if reads_only:
            kept = {name: value for name, value in access.properties.items() if name.lower() not in dialect.lasting}
            access = replace(access, properties=kept)
        allowed = allowed_paths(worker) if dialect.is_file or dialect.files_among(access.properties) else ()
        check_files(access, dialect, allowed)
        if importlib.util.find_spec(dialect.python_module) is None:
            module, package = dialect.python_module, dialect.python_package
            raise ValueError(f"{dialect.database} needs the Python module {module}: pip install '{package}'")
        dialect.python_url(access)  # raises for wrong parameters before anything is opened
        attempts, backoff_ms = config.get("connection.attempts") or 3, config.get("connection.backoff.ms")
        hides = bool(config.get("query.masked"))
        return cls(
            access,
            dialect,
            int(attempts),
            int(10_000 if backoff_ms is None else backoff_ms),
            hides,
            creates,
            allowed,
            AllowedHosts.of(worker),
            reads_only,
            login_seconds=login_seconds,
            stopping=stopping,
            interrupted_by=interrupted_by,
        )

    @property
    def engine(self) -> Engine:
        """SQLAlchemy's engine. Its logs and errors show no bound values."""
        if self._engine is None:
            url, arguments = self.dialect.python_url(self.access)
            if url.get_backend_name() != "sqlite":
                arguments = {"connect_timeout": self._login_seconds, **arguments}
            self._engine = sqlalchemy.create_engine(
                url,
                connect_args=arguments,
                hide_parameters=True,
                poolclass=QueuePool,
                pool_size=CONNECTIONS,
                max_overflow=0,
                pool_timeout=_LOGIN_SECONDS,
                pool_pre_ping=True,
            )
            event.listen(self._engine, "do_connect", lambda *_: self.check_hosts())
            event.listen(self._engine, "connect", self._check_opened, insert=True)
            self.dialect.prepare(self._engine)
            if self._reads_only:
                # Not for the session: behind a pool of sessions the next client would get it.
                event.listen(self._engine, "begin", lambda begun: begun.exec_driver_sql(self.dialect.read_only))
        return self._engine

    def source_sql(self) -> SourceSql:
        """The SQL of a source's queries, which depends on the URL's parameters."""
        return self.dialect.source_sql(self.access.properties)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection, tried `connection.attempts` times; raises errors inside as `error_of` says.

        Errors: DatabaseAway, DatabaseError.
        """
        with self.held() as connection, self.interruptible(connection):
            yield connection

    @contextmanager
    def held(self) -> Iterator[Connection]:
        """As `connect`, but interruptible only within `interruptible`: for a connection with long idle times."""
        connection = self._opened()
        try:
            with self.translated_errors(), connection:
                yield connection
        finally:
            # A lost connection cannot be rolled back either.
            with suppress(SQLAlchemyError):
                connection.close()

    def interruptible(self, connection: Connection) -> AbstractContextManager[None]:
        """A context in which a running statement ends soon once its task has to stop."""
        return self._interrupted_by(
            partial(self.dialect.interrupt, connection.connection.driver_connection, self.access)
        )

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A connection in a writing transaction: committed at the end, rolled back on an error.

        Errors: as `connect`.
        """
        with self.connect() as connection, begun(connection):
            yield connection

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raises errors of SQLAlchemy and of the driver inside as `error_of` says."""
        driver: type[Exception] = self.engine.dialect.loaded_dbapi.Error
        try:
            yield
        except (SQLAlchemyError, driver) as error:
            raise self.error_of(error) from (None if self.hides else _cause(error))

    def error_of(self, error: BaseException, doing: str = "") -> DatabaseAway | DatabaseError:
        """The error for the worker: the database, its user and message; its class says if a retry may help."""
        state = sql_states.sql_state(error)
        fatal = DatabaseLoginRefused if state.startswith("28") else DatabaseError
        kind = DatabaseAway if sql_states.is_retriable(error) else fatal
        said = sql_states.message(error)
        is_tls = doing and not state.startswith(("28", "3D")) and _TLS.search(_QUOTED.sub("", said))
        remedy = _TLS_REMEDY if is_tls else _remedy(state, self.access, bool(doing))
        if self.hides and not doing:
            refuses = "it refuses the hidden query, which its message may quote"
            said = f"{'it cannot answer now' if kind is DatabaseAway else refuses} [SQLSTATE {state}]"
        text = f"{self.access}{f', {doing}' if doing else ''}: {said}"
        return kind(f"{text}. {remedy}" if remedy else text)

    def close(self) -> None:
        """Closes all connections."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.access, self.dialect, self.attempts, self.backoff_ms, self.hides, self._creates)
        return type(self), (*given, self._allowed, self._hosts, self._reads_only)

    @property
    def is_missing_file(self) -> bool:
        """True if the database is a file that does not exist; connecting creates it if `creates`."""
        return self.dialect.is_file and not os.path.exists(self.access.url.database or "")

    def check_hosts(self) -> None:
        """Checks the URL's hosts and their addresses against the worker's allowed ones.

        Errors: ConfigError, DatabaseAway.
        """
        try:
            for host in self.access.url.hosts:
                self._hosts.check("connection.url", host.name)
        except HostUnknown as error:
            raise DatabaseAway(f"{self.access}, connecting: {error}") from None

    def _check_opened(self, connection: Any, _: object) -> None:
        """Refuses a connection that a link led outside after the check; nothing was read or written yet."""
        file = self.dialect.opened_file(connection)
        try:
            if file is not None:
                check_allowed(file, self._allowed)
        except ConfigError:
            connection.close()
            raise

    def _connected(self) -> Connection:
        try:
            check_files(self.access, self.dialect, self._allowed)
            return self.engine.connect()
        except ValueError as error:
            raise DatabaseError(f"{self.access}, connecting: {error}") from None

    def _opened(self) -> Connection:
        for attempt in range(1, self.attempts + 1):
            failure: DatabaseAway | DatabaseError
            cause: BaseException | None = None
            try:
                if self._creates or not self.is_missing_file:
                    return self._connected()
                text = "there is no such file. Check the path in connection.url"
                failure = DatabaseAway(f"{self.access}, connecting: {text}")
            except SQLAlchemyError as error:
                failure, cause = self.error_of(error, "connecting"), _cause(error)
            if attempt == self.attempts or isinstance(failure, DatabaseError) or self._stopping.is_set():
                raise failure from cause
            log.info("%s Attempt %d of %d; the next in %d ms.", failure, attempt, self.attempts, self.backoff_ms)
            self._stopping.wait(self.backoff_ms / 1000)
        raise AssertionError("connection.attempts is at least 1")


def begun(connection: Connection) -> RootTransaction:
    """A writing transaction: committed at its end, rolled back on an error."""
    return connection.execution_options(writes=True).begin()


def check_scheme(access: DatabaseAccess, worker: Mapping[str, Any]) -> None:
    """Refuses a kind of database that the worker does not allow, and an SQLite URL without a file.

    Errors: ValueError.
    """
    allowed = worker.get(ALLOWED_SCHEMES, _DEFAULT_SCHEMES)
    if access.url.subprotocol not in allowed:
        raise ValueError(
            f"this worker allows no jdbc:{access.url.subprotocol}: URLs; its operator may add it to "
            f"{ALLOWED_SCHEMES} (now {','.join(allowed)})"
        )
    if access.url.subprotocol == "sqlite":
        path = access.url.database or ""
        if not path or path.startswith(":") or path.lower().startswith("file:"):
            raise ValueError(f"{access.url}: name the database's file by its path: jdbc:sqlite:/path/to/file.db")


def check_files(access: DatabaseAccess, dialect: Dialect, allowed: tuple[str, ...]) -> None:
    """Refuses files outside of the worker's allowed paths: MariaDB's driver would fetch any URL.

    Errors: ValueError; ConfigError for a database that is a file.
    """
    if dialect.is_file:
        check_allowed(access.url.database or "", allowed)
    for name, path in dialect.files_among(access.properties).items():
        if path.startswith("-----"):
            continue  # not a file, but its text
        if re.match(r"[A-Za-z][\w+.-]*:", path):
            raise ValueError(f"{name} must be the path of a file, not a URL")
        try:
            check_allowed(path, allowed)
        except ConfigError as error:
            raise ValueError(f"{name}: {error.problems[0].message} {error.problems[0].remedy}") from None


BLOCKED_TEXT: Final = "JDBC URL contains blocked connection parameter"


def blocked_parameters(access: DatabaseAccess) -> list[str]:
    """The driver parameters that the worker's environment variable forbids, as for Confluent's connector."""
    blocked = {name.strip().lower() for name in os.environ.get(_BLOCKED, "").split(",") if name.strip()}
    return [name for name in access.properties if name.lower() in blocked]


def _remedy(state: str, access: DatabaseAccess, connects: bool) -> str:
    if state.startswith("28"):
        return "Check connection.user and connection.password"
    if state == "3D000" and connects:  # else a statement named another database
        return f"Create the database {access.url.database} or name another in connection.url"
    if state in ("08001", "08006"):
        return "Check that the server runs and that connection.url names its host and port"
    if state == "0A000":
        return "The server lacks this feature: use one that has it, or a column of another type (text for xml)"
    if state in ("26000", "42P05"):
        return "Where a pool gives each transaction another session (PgBouncer), set connection.prepareThreshold=0"
    if state == "53300" or state == "08004":
        return "Let the server take more connections, or run fewer tasks"
    return ""


def _cause(error: BaseException) -> BaseException | None:
    """The driver's own error: SQLAlchemy's has the statement in its text."""
    return getattr(error, "orig", None) if isinstance(error, SQLAlchemyError) else error
