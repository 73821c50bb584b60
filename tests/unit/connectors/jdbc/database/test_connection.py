"""Connecting: what a worker allows, how often it is tried, and errors that people can use."""

from __future__ import annotations

import contextlib
import pickle
import socket
import sqlite3
import struct
import threading
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy

from headrace.config.settings import ConfigError
from headrace.config.time_zones import zone
from headrace.connectors.jdbc.database import connection
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError
from headrace.plugins.stopping import StopToken
from headrace.worker.tasks.interrupts import Interrupts


def sqlite(path: Path, **worker: object) -> Database:
    return Database.of({"connection.url": f"jdbc:sqlite:{path}"}, worker)


def test_a_transaction_is_all_or_nothing_ddl_too(tmp_path: Path) -> None:
    database = sqlite(tmp_path / "a.db")
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(DatabaseError, match="SQLSTATE"))
        connection = stack.enter_context(database.begin())
        connection.execute(sqlalchemy.text("CREATE TABLE t (id INTEGER)"))
        connection.execute(sqlalchemy.text("INSERT INTO nowhere VALUES (1)"))
    with database.connect() as connection:
        assert database.dialect.tables(connection) == []
    database.close()


def test_it_is_picklable_without_what_is_open(tmp_path: Path) -> None:
    database = sqlite(tmp_path / "a.db")
    with database.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE t (id INTEGER)"))
    again = pickle.loads(pickle.dumps(database))
    with again.connect() as connection:
        assert [str(table) for table, _ in again.dialect.tables(connection)] == ["t"]
    again.close()
    database.close()


def test_who_waits_for_sqlites_lock_can_be_interrupted(tmp_path: Path) -> None:
    interrupts, began = Interrupts("c-0"), time.monotonic()
    url = {"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}"}
    database, waiting = Database.of(url, {}), Database.of(url, {}, interrupted_by=interrupts.by)
    interrupts.begin()
    with database.begin(), pytest.raises(DatabaseAway, match="locked"), waiting.begin():
        pass
    assert time.monotonic() - began < 20  # it would wait for 30 s
    waiting.close()
    database.close()


def test_who_waits_for_sqlites_lock_has_it_when_it_is_free(tmp_path: Path) -> None:
    database = sqlite(tmp_path / "a.db")
    holder = sqlite3.connect(tmp_path / "a.db", isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    threading.Timer(0.6, holder.close).start()  # longer than it waits at a time
    with database.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE t (id INTEGER)"))
    database.close()


def test_what_is_said_of_a_hidden_query_is_in_no_trace(tmp_path: Path) -> None:
    query = "SELECT {}".format("geheim"[::-1])  # the trace has the source's lines, too
    config = {"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}", "query.masked": query}
    database = pickle.loads(pickle.dumps(Database.of(config, {})))
    with pytest.raises(DatabaseError, match="SQLSTATE") as caught, database.connect() as connection:
        connection.execute(sqlalchemy.text(query))
    assert "miehe" not in "".join(traceback.format_exception(caught.value))
    database.close()


def test_a_writer_waits_for_the_other_one(tmp_path: Path) -> None:
    database = sqlite(tmp_path / "a.db")
    with database.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE t (id INTEGER)"))
    inside, done = threading.Event(), threading.Event()

    def write() -> None:
        inside.set()
        with database.begin() as connection:
            connection.execute(sqlalchemy.text("INSERT INTO t VALUES (2)"))
        done.set()

    other = threading.Thread(target=write)
    with database.begin() as connection:
        connection.execute(sqlalchemy.text("SELECT * FROM t"))
        other.start()
        assert inside.wait(60)
        connection.execute(sqlalchemy.text("INSERT INTO t VALUES (1)"))
        assert not done.is_set()
    other.join(60)
    assert done.is_set()
    with database.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT id FROM t")).scalars().all() == [1, 2]
    database.close()


def test_what_the_worker_does_not_allow(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    allowed = {"file.allowed.paths": [str(tmp_path / "in")]}
    sqlite(tmp_path / "in" / "a.db", **allowed)
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    for path in (tmp_path / "a.db", tmp_path / "in" / ".." / "a.db", tmp_path / "in" / "link" / "a.db"):
        with pytest.raises(ConfigError, match=r"file\.allowed\.paths"):
            sqlite(path, **allowed)
    with pytest.raises(ValueError, match=r"jdbc\.allowed\.schemes"):
        sqlite(tmp_path / "a.db", **{"jdbc.allowed.schemes": ["postgresql"]})
    with pytest.raises(ValueError, match=r"jdbc:h2:"):
        Database.of({"connection.url": "jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'x'"}, {})
    for path_text in (":memory:", ":resource:http://x/y.db", "file:/etc/x", "FILE:x", ""):
        with pytest.raises(ValueError, match="by its path"):
            Database.of({"connection.url": f"jdbc:sqlite:{path_text}"}, {})


def test_a_link_that_leads_outside_since_the_start_is_not_opened(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
    database = sqlite(inside / "a.db", **{"file.allowed.paths": [str(inside)]})
    (inside / "a.db").symlink_to(outside / "a.db")
    for one in (database, pickle.loads(pickle.dumps(database))):
        with pytest.raises(DatabaseError, match=r"connecting: .*a\.db.*outside of file\.allowed\.paths"), one.connect():
            pass
    assert not list(outside.iterdir())


def test_a_link_put_in_the_way_after_the_check_is_not_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
        sqlite3.connect(folder / "a.db").close()
    url = {"connection.url": f"jdbc:sqlite:{inside / 'a.db'}?journal_mode=WAL"}
    database = Database.of(url, {"file.allowed.paths": [str(inside)]})
    check = connection.check_files

    def check_then_swap(*given: Any) -> None:
        check(*given)
        (inside / "a.db").unlink()
        (inside / "a.db").symlink_to(outside / "a.db")

    monkeypatch.setattr(connection, "check_files", check_then_swap)
    with pytest.raises(DatabaseError, match=r"outside of file\.allowed\.paths"), database.connect():
        pass
    assert [(file.name, file.stat().st_size) for file in outside.iterdir()] == [("a.db", 0)]
    database.close()


FILES = {
    "postgresql": ("sslrootcert", "sslcert", "SSLKEY"),
    "mariadb": ("serverSslCert", "keyStore", "TrustStore", "serverRsaPublicKeyFile", "clientCertificateKeyStoreUrl"),
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in FILES.items() for name in names])
def test_drivers_read_files_that_the_worker_allows_and_nothing_else(tmp_path: Path, kind: str, name: str) -> None:
    worker = {"file.allowed.paths": [str(tmp_path)]}

    def config(value: str) -> dict[str, str]:
        return {"connection.url": f"jdbc:{kind}://db/shop", f"connection.{name}": value}

    Database.of(config(f"{tmp_path}/store"), worker)
    for url in ("http://169.254.169.254/latest", "jar:file:/x.jar!/y", "ftp://h/x", "classpath:x"):
        with pytest.raises(ValueError, match=f"{name} must be the path of a file"):
            Database.of(config(url), {})
    for outside in ("/etc/passwd", f"file:{tmp_path}/../x", "relative"):
        with pytest.raises(ValueError, match=rf"{name}: .*file\.allowed\.paths"):
            Database.of(config(outside), worker)


def test_parameters_that_the_environment_blocks_are_so_for_tasks_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDBC_CONNECTION_URL_BLOCKED_PARAMS", " Journal_Mode,x")
    with pytest.raises(ValueError, match="blocked connection parameter 'journal_mode'"):
        Database.of({"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}?journal_mode=WAL"}, {})
    sqlite(tmp_path / "a.db")
    monkeypatch.delenv("JDBC_CONNECTION_URL_BLOCKED_PARAMS")
    Database.of({"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}?=x"}, {})


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("jdbc:mariadb://db/x?connectTimeout=5s", "connectTimeout=5s"),
        ("jdbc:mariadb://db/x?sslMode=verify-ca&serverSslCert=/nowhere.pem", "serverSslCert: .*No such file"),
    ],
)
def test_a_parameter_that_is_wrong_is_told_before_anything_is_opened(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Database.of({"connection.url": url}, {})


def test_a_server_that_is_away_is_tried_as_often_as_said_and_named_without_the_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    config = {
        "connection.url": f"jdbc:postgresql://127.0.0.1:{port}/shop",
        "connection.user": "u",
        "connection.password": "geheim",
        "connection.attempts": "3",
        "connection.backoff.ms": "1",
    }
    with pytest.raises(DatabaseAway) as caught, Database.of(config, {}).connect():
        pass
    assert (caplog.text.count("Attempt 1 of 3"), caplog.text.count("Attempt 2 of 3")) == (1, 1)
    caplog.clear()
    ended = StopToken()
    ended.set()
    stopped = Database.of(config, {}, stopping=ended)
    with pytest.raises(DatabaseAway), stopped.begin():
        pass
    assert "Attempt" not in caplog.text, "it is waited for no more"
    with pytest.raises(DatabaseAway), pickle.loads(pickle.dumps(stopped)).begin():
        pass
    assert "Attempt 2 of 3" in caplog.text, "the task's end is not sent along"
    text = str(caught.value)
    assert f"jdbc:postgresql://127.0.0.1:{port}/shop as user u" in text
    assert "Check that the server runs" in text
    assert "geheim" not in text


def test_a_password_of_the_workers_own_is_told_to_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, told = tmp_path / "pgpass", list[bytes]()
    file.write_text("*:*:*:*:geheim\n", encoding="utf-8")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    monkeypatch.setenv("PGPASSWORD", "geheim")

    def ask(server: socket.socket) -> None:
        with server.accept()[0] as peer, peer.makefile("rb") as client:
            size, code = struct.unpack("!ii", client.read(8))
            while code in (80877103, 80877104):  # for TLS, for GSSAPI
                peer.sendall(b"N")
                size, code = struct.unpack("!ii", client.read(8))
            client.read(size - 8)
            peer.sendall(struct.pack("!cii", b"R", 8, 3))
            told.append(client.read())

    with socket.create_server(("127.0.0.1", 0)) as server:
        asking = threading.Thread(target=ask, args=(server,), daemon=True)
        asking.start()
        url = f"jdbc:postgresql://127.0.0.1:{server.getsockname()[1]}/shop"
        database = Database.of({"connection.url": url, "connection.user": "u"}, {})
        with pytest.raises(DatabaseError, match="no password supplied"), database.connect():
            pass
        asking.join(60)
    assert told == [b""]
    assert database.dialect.jvm(database.access).properties["password"] == ""
    database.close()


@pytest.mark.parametrize(
    "said",
    ["server does not support SSL, but SSL was required", "[SSL: CERTIFICATE_VERIFY_FAILED] IP address mismatch"],
)
def test_tls_that_fails_is_not_taken_for_a_server_that_is_away(said: str) -> None:
    database = Database.of({"connection.url": "jdbc:postgresql://db/shop"}, {})
    assert "sslrootcert" in str(database.error_of(psycopg.OperationalError(said), "connecting"))
    assert "sslrootcert" not in str(database.error_of(psycopg.OperationalError(said)))
    assert "server runs" in str(database.error_of(psycopg.OperationalError("Connection refused"), "connecting"))


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ('connection to server at "ssl.example.org", port 5432 failed: Connection refused', "server runs"),
        ("Can't connect to MySQL server on 'ssl.example.org' (refused)", "server runs"),
        ('password authentication failed for user "certificate"', "connection.password"),
        ('no pg_hba.conf entry for host "h", user "u", database "d", SSL encryption', "connection.password"),
        ('database "ssl" does not exist', "Create the database"),
    ],
)
def test_tls_is_not_to_blame_for_what_is_just_named_like_it(said: str, remedy: str) -> None:
    database = Database.of({"connection.url": "jdbc:postgresql://db/shop"}, {})
    told = str(database.error_of(psycopg.OperationalError(said), "connecting"))
    assert remedy in told
    assert "sslrootcert" not in told


def test_a_hidden_query_is_not_to_blame_for_a_server_that_is_away() -> None:
    config = {"connection.url": "jdbc:postgresql://db/shop", "query.masked": "SELECT 1"}
    database = Database.of(config, {})
    for error in (psycopg.OperationalError("lost"), psycopg.errors.LockNotAvailable(), psycopg.errors.QueryCanceled()):
        assert "it cannot answer now [SQLSTATE " in str(database.error_of(error))
    assert "it refuses the hidden query" in str(database.error_of(psycopg.errors.UndefinedTable()))


@pytest.mark.parametrize(
    ("name", "seconds"),
    [("UTC", 0), ("+02:00", 7200), ("GMT-3", -10800), ("UTC+05:30", 19800), ("EST", -18000), ("Asia/Tokyo", 32400)],
)
def test_time_zones_by_javas_ids(name: str, seconds: int) -> None:
    offset = zone(name).utcoffset(datetime(2024, 1, 1))
    assert offset is not None
    assert offset.total_seconds() == seconds


@pytest.mark.parametrize("name", ["UTC", "Etc/UTC", "Etc/GMT", "Zulu", "GMT+0", "+00:00", "UTC-00:00", "GMT0"])
def test_utc_by_all_its_names(name: str) -> None:
    assert zone(name) is UTC


@pytest.mark.parametrize("name", ["Mars/Base", "+19:00", "", "../etc/passwd"])
def test_what_is_no_time_zone(name: str) -> None:
    with pytest.raises(ValueError, match=r"time zone|hours"):
        zone(name)


def test_sqlites_harmless_parameters_hold(tmp_path: Path) -> None:
    database = Database.of({"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}?foreign_keys=on&key=x"}, {})
    with database.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
    database.close()
