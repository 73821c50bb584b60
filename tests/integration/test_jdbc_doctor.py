"""`headrace doctor --connector FILE` for JDBC, on real databases: what it says before anybody has to find out."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from headrace.connectors.jdbc.sink.doctor import sink_findings
from headrace.worker.cli import commands
from tests.integration.databases import PASSWORD, USER
from tests.integration.databases import Database as Given

SOURCE = {"name": "shop", "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector"}
SINK = {"name": "shop-sink", "connector.class": "io.aiven.connect.jdbc.JdbcSinkConnector", "topics": "orders,users"}


def doctor(folder: Path, config: dict[str, str]) -> tuple[int, dict[str, dict[str, str]]]:
    file = folder / "connector.json"
    file.write_text(json.dumps({"name": config["name"], "config": config}))
    done = CliRunner().invoke(commands.app, ["doctor", "--json", "--connector", str(file)])
    assert PASSWORD not in done.output
    report = json.loads(done.stdout)
    assert report["ok"] is (done.exit_code == 0)
    return done.exit_code, {check["name"]: check for check in report["checks"]}


def test_a_source_that_can_run(tmp_path: Path, database: Given) -> None:
    database.execute(
        "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, at TIMESTAMP NOT NULL)",
        "CREATE TABLE users (At TIMESTAMP NOT NULL)",
    )
    config = {**SOURCE, **database.settings, "mode": "timestamp", "timestamp.column.name": "at"}
    code, found = doctor(tmp_path, {**config, "connection.socketFactory": "org.example.Evil"})
    assert code == 0
    assert found["config"]["state"] == "ok"
    assert " answers in " in found["database"]["found"]
    assert found["tables"]["found"].startswith("2: ")
    assert found["parameter socketFactory"]["state"] == "warn"
    table = next(check for name, check in found.items() if name.endswith("users"))
    assert table["state"] == "warn"
    database.execute(table["advice"], "CREATE INDEX fast ON orders (at)")
    _, found = doctor(tmp_path, config)
    assert {check["state"] for name, check in found.items() if name.startswith("table ")} == {"ok"}


def test_what_a_source_lacks(tmp_path: Path, postgresql: Given) -> None:
    postgresql.execute(
        "CREATE TABLE a (x int, at timestamp)",
        "CREATE TABLE b (id serial PRIMARY KEY)",
        "CREATE SCHEMA s",
        "CREATE TABLE s.b (id serial PRIMARY KEY)",
    )
    code, found = doctor(
        tmp_path, {**SOURCE, **postgresql.settings, "mode": "incrementing", "table.include.list": ".*"}
    )
    assert code == 3
    assert "would share one topic" in found["topics"]["found"]
    assert "incrementing.column.name" in found["table public.a"]["found"]
    assert found["table public.b"]["state"] == "ok"
    code, found = doctor(tmp_path, {**SOURCE, **postgresql.settings, "mode": "bulk", "table.whitelist": "nix"})
    assert (code, found["tables"]["state"]) == (3, "fail")
    code, found = doctor(tmp_path, {**SOURCE, **postgresql.settings, "mode": "bulk", "table.whitelist": "a,nix"})
    assert (code, found["tables"]["state"], found["table nix"]["state"]) == (3, "ok", "fail")


def test_a_role_without_rights_is_told_which(tmp_path: Path, postgresql: Given) -> None:
    postgresql.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE orders (id int PRIMARY KEY)")
    postgresql.execute("DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN PASSWORD 'geheim'")
    login = {**postgresql.settings, "connection.user": "guest", "connection.password": "geheim"}
    _, found = doctor(tmp_path, {**SOURCE, **login, "mode": "bulk", "table.whitelist": "a"})
    assert found["tables"]["state"] == "fail"
    _, found = doctor(tmp_path, {**SINK, **login})
    assert "GRANT INSERT" in found["table orders"]["advice"]
    postgresql.execute("DROP ROLE guest")


@pytest.mark.parametrize("kind", ["postgresql", pytest.param("mariadb", marks=pytest.mark.long)])
def test_the_servers_time_zone(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    database: Given = request.getfixturevalue(kind)
    config = {**SOURCE, **database.settings, "mode": "bulk", "query": "SELECT 1 AS x"}
    _, found = doctor(tmp_path, config)
    assert "time zone" not in found
    _, found = doctor(tmp_path, {**config, "db.timezone": "Asia/Tokyo"})
    assert found["time zone"]["state"] == "warn"
    assert "db.timezone=" in found["time zone"]["advice"]


def test_a_password_in_the_url(tmp_path: Path, postgresql: Given) -> None:
    url = f"{postgresql.jdbc_url}?user={USER}&password={quote(PASSWORD)}"
    config = {**SOURCE, "connection.url": url, "mode": "bulk", "query": "SELECT 1 AS x"}
    _, found = doctor(tmp_path, config)
    assert found["database"]["state"] == "ok"
    assert found["connection.url"]["state"] == "warn"
    assert "connection.password" in found["connection.url"]["advice"]


def test_what_a_sink_lacks(tmp_path: Path, database: Given) -> None:
    database.execute("CREATE TABLE orders (id int NOT NULL, v int, w int GENERATED ALWAYS AS (v * 2) STORED)")
    config = {**SINK, **database.settings, "insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
    code, found = doctor(tmp_path, config)
    assert code == 3
    assert "ADD UNIQUE" in found["table orders"]["advice"]
    assert found["table users"]["found"] == "is missing"
    database.execute("CREATE UNIQUE INDEX one ON orders (id)")
    code, found = doctor(tmp_path, {**config, "auto.create": "true", "offsets.table": "connect_offsets"})
    assert code == 0
    assert found["table orders"]["state"] == "ok"
    assert "is created" in found["table users"]["found"]
    assert "is created" in found["table connect_offsets"]["found"]


def test_a_sinks_tables_are_looked_for_by_the_names_that_it_uses(postgresql: Given) -> None:
    postgresql.execute("CREATE TABLE orders (id int)", 'CREATE TABLE "Offsets" (id int)')
    config = {**SINK, **postgresql.settings, "quote.sql.identifiers": "never", "offsets.table": "Offsets"}
    found = {one.what: one for one in sink_findings({**config, "topics": "Orders,a.b.c.d"}, {})}
    assert found["table orders"].good
    assert found["table Offsets"].found == "is there (offsets)"
    assert found["table a.b.c.d"].good is False
    assert "table.name.format" in found["table a.b.c.d"].advice


def test_wrong_settings_and_classes_are_all_told(tmp_path: Path, sqlite: Given) -> None:
    code, found = doctor(tmp_path, {**SOURCE, **sqlite.settings, "poll.interval.ms": "soon"})
    assert code == 3
    assert "soon" in found["poll.interval.ms"]["found"]
    code, found = doctor(tmp_path, {**SOURCE, "connector.class": "org.example.Nothing"})
    assert (code, found["connector"]["state"]) == (3, "fail")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    done = CliRunner().invoke(commands.app, ["doctor", "--connector", str(tmp_path / "missing.properties")])
    assert done.exit_code == 3
    assert "cannot be read" in done.output
