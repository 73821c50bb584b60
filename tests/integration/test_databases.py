"""The databases of the tests themselves: whether they are what they say."""

from __future__ import annotations

import os

import psutil
import pytest

from tests.integration.databases import Database, MariadbServer, PostgresqlServer, Server

pytestmark = pytest.mark.long


def test_each_test_has_an_empty_database(database: Database) -> None:
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v VARCHAR(10))")
    database.execute("INSERT INTO t VALUES (:id, :v)", id=1, v="ä€😀")
    assert database.rows("SELECT * FROM t") == [(1, "ä€😀")]
    assert database.jdbc_url.startswith(f"jdbc:{database.kind}:")


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_killed_server_comes_back_with_its_data(kind: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(f"{kind}_server")
    database: Database = request.getfixturevalue(kind)
    database.execute("CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (7)")
    server.kill()
    server.start()
    assert database.value("SELECT id FROM t") == 7


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
def test_servers_run_without_rights(postgresql_server: PostgresqlServer, mariadb_server: MariadbServer) -> None:
    assert {psutil.Process(server.pid).username() for server in (postgresql_server, mariadb_server)} == {"nobody"}
