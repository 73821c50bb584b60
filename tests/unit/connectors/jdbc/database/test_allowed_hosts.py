"""Databases within `connector.allowed.hosts`: by Python's drivers at each connection, and before the JVM's connects."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker import allowed_hosts
from headrace.config.worker.allowed_hosts import ALLOWED_HOSTS, AllowedHosts
from headrace.connectors.jdbc.contract.dialect import JvmDriver
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError
from headrace.connectors.jdbc.database.jvm_link import JvmAccess
from headrace.plugins.errors import RetriableError


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A port that says whether anybody has connected."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        yield listening


def database(url: str, *patterns: str) -> Database:
    config = {"connection.url": url, "connection.attempts": "1", "connection.user": "u"}
    return Database.of(config, {ALLOWED_HOSTS: patterns}, login_seconds=2)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "mysql"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "ok.test,127.0.0.1"])
def test_no_connection_is_made_to_a_refused_host(
    server: socket.socket, kind: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo
    found: Any = lambda name, *more, **named: (  # noqa: E731
        [(2, 1, 6, "", ("10.0.0.1", 0))] if name == "ok.test" else real(name, *more, **named)
    )
    monkeypatch.setattr(allowed_hosts, "_resolved", found)
    url = f"jdbc:{kind}://{host}:{server.getsockname()[1]}/db"
    refusing = pickle.loads(pickle.dumps(database(url, "*.example.com", "10.0.0.0/8")))
    with pytest.raises(DatabaseError, match=r"connecting: .*connector\.allowed\.hosts"), refusing.connect():
        pass
    with pytest.raises(TimeoutError):
        server.accept()


def test_a_host_without_address_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowed_hosts, "_resolved", lambda *_, **__: [])
    refusing = database("jdbc:postgresql://db/x", "10.0.0.0/8")
    with pytest.raises(DatabaseAway, match="no address now"), refusing.connect():
        pass


def test_the_jvms_connection_is_judged_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = JvmDriver("org.postgresql.Driver", "jdbc:postgresql://db/x", {})
    access = JvmAccess(driver, driver.url, hosts=("db",), allowed=AllowedHosts.of({ALLOWED_HOSTS: ["10.0.0.0/8"]}))
    access = pickle.loads(pickle.dumps(access))
    for answer, error in ((["10.0.0.1"], None), (["10.0.0.1", "11.0.0.1"], ConfigError), ([], RetriableError)):
        found = [(2, 1, 6, "", (address, 0)) for address in answer]
        monkeypatch.setattr(allowed_hosts, "_resolved", lambda *_, found=found, **__: found)
        if error is None:
            access.check_hosts()
        else:
            with pytest.raises(error):
                access.check_hosts()
