"""Real databases for tests: PostgreSQL and MariaDB as processes on free loopback ports, SQLite as a file.

The servers come from Debian packages (`debian_packages`). They run as an unprivileged user (PostgreSQL refuses root) on
a data folder of their own and end with the test run.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil
import sqlalchemy
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from headrace.worker.machine import processes as child
from tests.held_ports import held_port
from tests.integration.debian_packages import installed, program_path

USER = "headrace"
PASSWORD = "p@ss:w/rd'%1"
"""Of the users in both servers; every character of it breaks a URL that does not escape it."""

_UNPRIVILEGED = "nobody"
_START_S = 180.0


class Database:
    """One empty database: what a connector's config needs to reach it, and SQL for tests."""

    def __init__(self, kind: str, jdbc_url: str, url: sqlalchemy.URL) -> None:
        self.kind = kind
        self.jdbc_url = jdbc_url
        self.url = url
        self.engine = sqlalchemy.create_engine(url, poolclass=NullPool)

    @property
    def settings(self) -> dict[str, str]:
        """`connection.url` and, where there are users, `connection.user` and `connection.password`."""
        login = {"connection.user": self.url.username, "connection.password": self.url.password}
        return {"connection.url": self.jdbc_url, **{key: value for key, value in login.items() if value is not None}}

    def execute(self, *statements: str, **values: Any) -> None:
        """The statements have run in one transaction; `:name` in them is bound."""
        with self.engine.begin() as connection:
            for statement in statements:
                connection.execute(sqlalchemy.text(statement), values)

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """All rows that the query gives; `:name` in it is bound."""
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sqlalchemy.text(query), values)]

    def value(self, query: str, **values: Any) -> Any:
        """The first column of the only row."""
        ((found, *_),) = self.rows(query, **values)
        return found


class Server:
    """A database server on a data folder of its own; its port and data outlive `stop()` and `kill()`.

    As a context manager it runs inside, and nothing of it is left at the end.
    Not `durable`: its commits survive its own death, not the machine's; several times faster.
    """

    kind: ClassVar[str]
    packages: ClassVar[Sequence[str]]
    programs: ClassVar[Sequence[str]]
    """The programs that the packages must have brought; the first is the server."""
    quick_stop: ClassVar[signal.Signals]

    def __init__(self, *, durable: bool = False, options: Sequence[str] = ()) -> None:
        self.durable = durable
        self.options = options
        self.port = held_port()
        # Not pytest's folder: that one only its owner can enter.
        self.folder = Path(tempfile.mkdtemp(prefix=f"headrace-{self.kind}-"))
        self.data = self.folder / "data"
        self.log_file = self.folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """It answers."""
        binary = installed(self.programs, self.packages)
        if not self.data.exists():
            self._give_away(self.folder)
            self._initialize()
        command = [*_unprivileged(self.quick_stop), binary, *self._arguments(), *self.options]
        self._process = child.spawn(command, output=self.log_file, cwd=self.folder, env=self._environment)
        deadline = time.monotonic() + _START_S
        while not self._answers():
            alive = self.is_running and time.monotonic() < deadline
            assert alive, self.log_file.read_text(errors="replace")[-3000:]
            time.sleep(0.05)

    def stop(self) -> None:
        """It has ended in order, even if clients are connected."""
        assert self._process is not None
        self._process.send_signal(self.quick_stop)
        try:
            self._process.wait(60)
        finally:
            child.kill(self._process)

    def kill(self) -> None:
        """It is gone as by `kill -9`, and so is what it started."""
        assert self._process is not None
        family = psutil.Process(self.pid).children(recursive=True)
        child.kill(self._process)
        for one in family:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(family, 60)

    def remove(self) -> None:
        """Nothing of it is left."""
        if self.is_running:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def database(self) -> Iterator[Database]:
        """A new database, dropped at the end."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        admin = self._admin()
        with admin.connect() as connection:
            connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}{self._creation}"))
        found = Database(self.kind, f"jdbc:{self.kind}://127.0.0.1:{self.port}/{name}", self._url(name))
        try:
            yield found
        finally:
            found.engine.dispose()
            if self.is_running:
                with admin.connect() as connection:
                    connection.execute(sqlalchemy.text(f"DROP DATABASE {name}{self._force}"))

    _creation: ClassVar[str] = ""
    _force: ClassVar[str] = ""

    def _initialize(self) -> None:
        raise NotImplementedError

    def _arguments(self) -> list[str]:
        raise NotImplementedError

    def _url(self, database: str | None) -> sqlalchemy.URL:
        raise NotImplementedError

    def _admin(self) -> sqlalchemy.Engine:
        return sqlalchemy.create_engine(self._url(None), poolclass=NullPool, isolation_level="AUTOCOMMIT")

    def _answers(self) -> bool:
        try:
            self._admin().connect().close()
        except OperationalError:
            return False
        return True

    @property
    def _environment(self) -> dict[str, str]:
        """This process's, with a folder of its own for temporary files: a MariaDB that starts deletes another's."""
        return {**os.environ, "TMPDIR": str(self.folder)}

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            [*_unprivileged(self.quick_stop), *command],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _give_away(self, path: Path) -> None:
        if os.geteuid() == 0:
            shutil.chown(path, _UNPRIVILEGED)


class PostgresqlServer(Server):
    """PostgreSQL, with every locale-dependent thing in UTF-8 and the clock in UTC."""

    kind = "postgresql"
    packages = ("postgresql",)
    programs = ("postgres", "initdb")
    quick_stop = signal.SIGINT
    _force = " WITH (FORCE)"

    def _initialize(self) -> None:
        secret = self.folder / "secret"
        secret.write_text(PASSWORD, encoding="utf-8")
        secret.chmod(0o600)
        self._give_away(secret)
        login = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}"]
        quick = ["--no-sync", "--no-instructions", "--locale=C.UTF-8", "--encoding=UTF8"]
        self._run(program_path("initdb"), "-D", str(self.data), *login, *quick)

    def _arguments(self) -> list[str]:
        durable = "on" if self.durable else "off"
        given = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": durable,
            "full_page_writes": durable,
            "timezone": "UTC",
            "max_connections": 200,
            "shared_buffers": "128MB",
        }
        return ["-D", str(self.data), *(word for key, value in given.items() for word in ("-c", f"{key}={value}"))]

    def _url(self, database: str | None) -> sqlalchemy.URL:
        return sqlalchemy.URL.create(
            "postgresql+psycopg", USER, PASSWORD, "127.0.0.1", self.port, database or "postgres"
        )


class MariadbServer(Server):
    """MariaDB; clients may not read files of theirs into it (`LOAD DATA LOCAL`), as is safe."""

    kind = "mariadb"
    packages = ("mariadb-server-core", "mariadb-client-core")
    programs = ("mariadbd", "mariadb-install-db", "my_print_defaults")
    quick_stop = signal.SIGTERM
    _creation = " CHARACTER SET utf8mb4"

    def _initialize(self) -> None:
        quoted = PASSWORD.replace("'", "''")
        init = self.folder / "init.sql"
        init.write_text(
            f"CREATE OR REPLACE USER {USER}@'%' IDENTIFIED BY '{quoted}';\n"
            f"GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION;\n",
            encoding="utf-8",
        )
        init.chmod(0o644)
        made = ["--no-defaults", f"--datadir={self.data}", "--auth-root-authentication-method=normal"]
        self._run(program_path("mariadb-install-db"), *made, "--skip-test-db", "--skip-name-resolve")

    def _arguments(self) -> list[str]:
        given = {
            "datadir": self.data,
            "port": self.port,
            "bind-address": "127.0.0.1",
            "socket": self.folder / "socket",
            "pid-file": self.folder / "pid",
            "init-file": self.folder / "init.sql",
            "innodb-flush-log-at-trx-commit": 1 if self.durable else 2,
            "local-infile": "OFF",
            "character-set-server": "utf8mb4",
            "max-allowed-packet": "64M",
        }
        return ["--no-defaults", "--skip-name-resolve", *(f"--{key}={value}" for key, value in given.items())]

    def _url(self, database: str | None) -> sqlalchemy.URL:
        return sqlalchemy.URL.create(
            "mariadb+pymysql", USER, PASSWORD, "127.0.0.1", self.port, database, query={"charset": "utf8mb4"}
        )


def sqlite_database(folder: Path) -> Database:
    """An SQLite file, empty."""
    path = folder / "test.db"
    path.touch()
    return Database("sqlite", f"jdbc:sqlite:{path}", sqlalchemy.URL.create("sqlite", database=str(path)))


def _unprivileged(last_wish: signal.Signals) -> list[str]:
    """The words that make root run a command as nobody; the command is told to end when this process dies.

    Empty if this is not root.
    """
    if os.geteuid() != 0:
        return []
    user = [f"--reuid={_UNPRIVILEGED}", "--regid=nogroup", "--clear-groups"]
    # The kernel forgets the wish of `child.spawn` when the user changes.
    wish = f"--pdeathsig={last_wish.name.removeprefix('SIG')}"
    return [shutil.which("setpriv") or "/usr/bin/setpriv", *user, wish, "--"]
