"""StatsD and Graphite servers, as sockets of the test's own."""

from __future__ import annotations

import logging
import socket
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.worker.telemetry.numbers import Column
from headrace.worker.telemetry.servers import GraphiteServer, Server, StatsdServer, servers_of
from tests.held_ports import held_port

COLUMNS = [Column("lag", "", [{"connector": f"c{number}"} for number in range(100)], list(range(100)))]
WORKER = {
    "bootstrap.servers": "x:1",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.storage.file.filename": "/tmp/offsets",
}


def test_statsd_gets_all_lines_in_datagrams() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(60)
        StatsdServer("127.0.0.1", udp.getsockname()[1], "p").send(COLUMNS)
        lines: list[str] = []
        while len(lines) < 100:
            packet = udp.recv(65536)
            assert len(packet) <= 1_400
            lines += packet.decode().split("\n")
    assert lines == [f"p.lag.c{number}:{number}|g" for number in range(100)]


def test_graphite_gets_all_lines_over_one_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        GraphiteServer("127.0.0.1", listening.getsockname()[1], "p").send(COLUMNS)
        connection, _ = listening.accept()
        with connection, connection.makefile() as file:
            lines = file.readlines()
    assert [line.rpartition(" ")[0] for line in lines] == [f"p.lag.c{number} {number}" for number in range(100)]
    assert abs(int(lines[0].split()[-1]) - 1.8e9) < 1e9


def test_a_server_that_is_away_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    port = held_port()
    server = GraphiteServer("127.0.0.1", port, "p")
    for _ in range(3):
        server.send(COLUMNS)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"Graphite at 127.0.0.1:{port}" in caplog.text
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server.port = listening.getsockname()[1]
        server.send(COLUMNS)
        server.send(COLUMNS)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_an_unknown_host_is_away(caplog: pytest.LogCaptureFixture) -> None:
    StatsdServer("no such host.invalid", 8125, "p").send(COLUMNS)
    assert "will be tried again" in caplog.text


def test_settings_name_the_servers() -> None:
    def servers(**given: Any) -> list[Server]:
        return servers_of(WorkerConfig.standalone({**WORKER, **given}))

    assert servers() == []
    (one, two) = servers(**{"metrics.statsd.host": "s", "metrics.graphite.host": "g", "metrics.graphite.port": "7"})
    assert (type(one), one.host, one.port, one.prefix) == (StatsdServer, "s", 8125, "connect")
    assert (type(two), two.host, two.port, two.prefix) == (GraphiteServer, "g", 7, "connect")
    for wrong in ({"metrics.statsd.port": "0"}, {"metrics.output.interval.ms": "10"}):
        with pytest.raises(ConfigError):
            servers(**wrong)
