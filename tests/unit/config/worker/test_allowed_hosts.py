"""`connector.allowed.hosts`: names, networks and addresses; and where a config names hosts."""

from __future__ import annotations

import logging
import pickle
import socket
from typing import Any

import pytest

from headrace.config.connector.validator import ConnectorValidator
from headrace.config.problems import ConfigError
from headrace.config.worker import allowed_hosts
from headrace.config.worker.allowed_hosts import (
    ALL_NAMES,
    ALLOWED_HOSTS,
    EVERYWHERE,
    AllowedHosts,
    HostUnknown,
    RecentlyAllowed,
    check_hosts,
    host_problems,
    named_hosts,
)
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.interop.discovery import Plugins

STANDALONE = {
    "bootstrap.servers": "localhost:9092",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.storage.file.filename": "/tmp/offsets",
}


def allowed(*patterns: str) -> AllowedHosts:
    return AllowedHosts.of({ALLOWED_HOSTS: patterns})


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The names that the resolver knows."""
    known: dict[str, list[str]] = {}

    def resolve(host: str, *_: Any, **__: Any) -> list[Any]:
        try:
            socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
        except OSError:
            found = known.get(host)
        else:
            found = [host]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in found]

    monkeypatch.setattr(allowed_hosts, "_resolved", resolve)
    return known


@pytest.mark.parametrize(
    ("patterns", "host"),
    [
        (["*"], "anything"),
        (["*"], "10.0.0.1"),
        (["*.example.com"], "db.eu.example.com"),
        (["*.example.com"], "DB.Example.Com."),
        (["db-*.example.com"], "db-7.example.com"),
        (["10.0.0.0/8"], "10.1.2.3"),
        (["10.0.0.0/8"], "::ffff:10.1.2.3"),
        (["10.1.2.3"], "10.1.2.3"),
        (["fd00::/8"], "fd00::1"),
        (["169.254.0.0/16"], "169.254.169.254"),
        (list(EVERYWHERE), "169.254.169.254"),
    ],
)
def test_what_is_allowed(patterns: list[str], host: str) -> None:
    assert allowed(*patterns).problem("k", host) is None


@pytest.mark.parametrize(
    ("patterns", "host"),
    [
        ([], "db"),
        (["*.example.com"], "example.com"),
        (["*.example.com"], "example.com.evil.org"),
        (["*.example.com"], "10.0.0.1"),
        (["10.0.0.0/8"], "11.0.0.1"),
        (["*"], "169.254.169.254"),
        (["*"], "::ffff:169.254.169.254"),
        (["*"], "64:ff9b::a9fe:a9fe"),
        (["*"], "fe80::1"),
        (["*"], "fe80::1%eth0"),
        (["*"], "fd00:ec2::254"),
        (["*"], "100.100.100.200"),
    ],
)
def test_what_is_refused_without_asking_for_addresses(patterns: list[str], host: str) -> None:
    problem = allowed(*patterns).problem("connection.url", host)
    assert problem is not None
    assert problem.key == "connection.url"
    assert ALLOWED_HOSTS in problem.message
    assert host.partition("%")[0] in str(problem)
    assert "operator" in problem.remedy


def test_a_name_whose_addresses_only_can_allow_it_waits_for_them(names: dict[str, list[str]]) -> None:
    hosts = allowed("10.0.0.0/8")
    assert hosts.problem("k", "db") is None, "its addresses may be allowed"
    names["db"] = ["10.0.0.1", "10.0.0.2"]
    assert hosts.check("k", "db") == ["10.0.0.1", "10.0.0.2"]
    names["db"] = ["10.0.0.1", "192.168.0.1"]
    with pytest.raises(ConfigError, match=r"the host db \(192\.168\.0\.1\)"):
        hosts.check("k", "db")
    del names["db"]
    with pytest.raises(HostUnknown, match="no address now"):
        hosts.check("k", "db")


def test_a_name_that_leads_to_a_metadata_service_is_refused(names: dict[str, list[str]]) -> None:
    names["db.example.com"] = ["203.0.113.5", "169.254.169.254"]
    for hosts in (ALL_NAMES, allowed("*.example.com")):
        with pytest.raises(ConfigError, match="link-local, or of a cloud's metadata service") as refused:
            hosts.check("connection.url", "db.example.com")
        assert "169.254.169.254" in str(refused.value)
    assert allowed("*", "169.254.169.254").check("k", "db.example.com")


def test_a_number_that_is_an_address_is_judged_as_that(names: dict[str, list[str]]) -> None:
    names["2852039166"] = ["169.254.169.254"]  # as the system's resolver reads it
    with pytest.raises(ConfigError, match=r"169\.254\.169\.254"):
        ALL_NAMES.check("k", "2852039166")


def test_an_allowed_name_that_nobody_knows_is_left_to_who_connects(names: dict[str, list[str]]) -> None:
    assert allowed("*.example.com").check("k", "db.example.com") == []
    with pytest.raises(ConfigError):
        allowed("*.example.com").check("k", "other")


def test_a_host_of_many_requests_is_judged_now_and_then(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(allowed_hosts.time, "monotonic", lambda: now)
    recent = RecentlyAllowed(allowed("10.0.0.0/8"))
    names["db"] = ["10.0.0.1"]
    recent.check("k", "db")
    names["db"] = ["11.0.0.1"]
    recent.check("k", "db")
    now += 10
    for _ in range(2):
        with pytest.raises(ConfigError):
            recent.check("k", "db")


@pytest.mark.parametrize("host", ["a b", "a\0b", "ä" * 70, "x" * 300])
def test_what_can_be_no_host_has_no_address(host: str) -> None:
    assert ALL_NAMES.check("k", host) == []


def test_it_goes_to_executors() -> None:
    hosts = allowed("*.example.com", "10.0.0.0/8")
    assert pickle.loads(pickle.dumps(hosts)) == hosts


@pytest.mark.parametrize("pattern", ["10.0.*", "10.0.0.0/33", "http://db", "a b", "db:5432", "", "300.1.1.1"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ConfigError, match="neither a host's name"):
        WorkerConfig.standalone({**STANDALONE, ALLOWED_HOSTS: f"ok.example.com,{pattern},x"})


def test_plugins_may_read_it() -> None:
    config = WorkerConfig.standalone({**STANDALONE, ALLOWED_HOSTS: "*.example.com, 10.0.0.0/8"})
    assert config.for_plugins()[ALLOWED_HOSTS] == ["*.example.com", "10.0.0.0/8"]
    assert WorkerConfig.standalone(STANDALONE).for_plugins()[ALLOWED_HOSTS] == ["*"]


@pytest.mark.parametrize(
    ("key", "value", "hosts"),
    [
        ("connection.url", "jdbc:postgresql://u:p@a:1,b:2,[::1]:3/db?x=//y", ["a", "b", "::1"]),
        ("connection.url", "jdbc:mariadb:sequential://a,b/db", ["a", "b"]),
        ("connection.url", "jdbc:sqlserver://a\\inst:1433;databaseName=x", ["a"]),
        ("connection.url", "jdbc:sqlite:/tmp/x.db", []),
        ("value.converter.schema.registry.url", "http://a:1,https://me:secret@b:2/path", ["a", "b"]),
        ("value.converter.schema.registry.url", "http://x@a:1\\@b/path", ["b", "a"]),
        ("connection.url", "jdbc:hive2://DOM\\me:word@b:2/db", ["b"]),
        ("value.converter.bearer.auth.issuer.endpoint.url", "https://login.example.com/token", ["login.example.com"]),
        ("key.converter.proxy.host", "proxy", ["proxy"]),
        ("producer.override.bootstrap.servers", "a:9092, SSL://b:9093,[fd00::1]:9094", ["a", "b", "fd00::1"]),
        ("producer.override.sasl.oauthbearer.token.endpoint.url", "https://a/token", ["a"]),
        ("consumer.override.sasl.oauthbearer.jwks.endpoint.url", "file:///etc/jwks.json", []),
        ("source.cluster.bootstrap.servers", "a:9092", ["a"]),
        ("target.admin.bootstrap.servers", "b:9092", ["b"]),
        ("hdfs.url", "hdfs://nn:8020/lake", ["nn"]),
        ("store.url", "webhdfs://nn1:9870,nn2:9870/lake", ["nn1", "nn2"]),
        ("store.url", "s3://bucket/folder", []),
        ("store.url", "http://minio:9000", ["minio"]),
        ("s3.endpoint", "https://minio:9000", ["minio"]),
        ("s3.proxy.url", "http://proxy:3128", ["proxy"]),
        ("hive.metastore.uris", "thrift://m1:9083,thrift://m2:9083", ["m1", "m2"]),
        ("database.hostname", "db", ["db"]),
        ("query", "SELECT 'http://a' FROM t", []),
        ("transforms.t.replacement", "http://a", []),
        ("file", "/var/log/http://a", []),
    ],
)
def test_where_a_config_names_hosts(key: str, value: str, hosts: list[str]) -> None:
    assert list(named_hosts({key: value, "nothing": None})) == [(key, host) for host in hosts]


def test_one_problem_for_each_setting() -> None:
    worker = {ALLOWED_HOSTS: ["*.example.com"]}
    config = {"store.url": "webhdfs://a,b/x", "s3.endpoint": "http://ok.example.com", "database.hostname": "c"}
    assert [(one.key, one.value) for one in host_problems(config, worker)] == [
        ("database.hostname", "c"),
        ("store.url", "a"),
    ]


def test_an_open_gate_is_told_once(names: dict[str, list[str]], caplog: pytest.LogCaptureFixture) -> None:
    allowed_hosts._warn_of_no_bounds.cache_clear()
    names["db"] = ["10.0.0.1"]
    with caplog.at_level(logging.WARNING):
        check_hosts({"name": "c", "file": "/tmp/x"}, {})
        assert not caplog.messages, "it names no host"
        for _ in range(2):
            check_hosts({"connection.url": "jdbc:postgresql://db/x"}, {})
    assert len([one for one in caplog.messages if one.startswith(f"{ALLOWED_HOSTS} is *")]) == 1


def test_a_config_is_refused_with_the_setting_that_names_the_host() -> None:
    worker = WorkerConfig.standalone({**STANDALONE, ALLOWED_HOSTS: "*.example.com"})
    config = {
        "name": "c",
        "connector.class": "FileStreamSource",
        "file": "/tmp/x",
        "topic": "t",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://registry.evil.org:8081",
        "producer.override.bootstrap.servers": "broker.evil.org:9092",
        "other.url": "http://169.254.169.254/latest",
    }
    infos = ConnectorValidator(Plugins.shipped(), worker)(config).infos()
    found = {one["value"]["name"]: one["value"]["errors"] for one in infos["configs"] if one["value"]["errors"]}
    assert found.keys() == {
        "value.converter.schema.registry.url",
        "producer.override.bootstrap.servers",
        "other.url",
    }
    assert infos["error_count"] == 3
    for key, host in (("value.converter.schema.registry.url", "registry.evil.org"), ("other.url", "169.254.169.254")):
        (text,) = found[key]
        assert ALLOWED_HOSTS in text
        assert host in text
