"""Hosts and origins that a worker answers: those of its users, none that a web page can choose."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.rest.http import guard
from tests.unit.rest.scripted import scripted, serving

EVIL = "http://evil.example.com"
SETTINGS = {
    "listeners": ["http://:8083", "http://listens.example.com:8083"],
    "rest.advertised.host.name": "Worker-1.example.com",
    "rest.allowed.hosts": ["connect.example.com", "*.lb.example.com"],
    "access.control.allow.origin": "http://ui.example.com",
    "access.control.allow.methods": "GET,PUT",
}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(scripted({"connectors": []}), SETTINGS) as client:
        yield client


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8083",
        "10.1.2.3:18083",
        "[::1]:8083",
        "[fe80::1%25eth0]:8083",
        "localhost:49152",  # a forwarded port
        "LOCALHOST",
        "connect:8083",  # a container
        "my-connect-api.kafka.svc:8083",
        "my-connect-api.kafka.svc.cluster.local:8083",
        "host.docker.internal:8083",
        "localhost.localdomain",
        "connect.service.consul:8083",
        "connect.corp",
        "connect.home",
        "connect.intranet",
        "worker-1.example.com:8083",
        "worker-1.example.com.",
        "listens.example.com",
        "connect.example.com:443",
        "a.b.lb.example.com",
    ],
)
def test_the_hosts_of_its_users_are_answered(client: httpx.Client, host: str) -> None:
    assert client.get("/connectors", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example.com", "evil.example.com:8083", "localhost.evil.example.com", "127.0.0.1.nip.io", "lb.example.com"],
)
def test_the_host_of_another_is_refused(client: httpx.Client, host: str) -> None:
    answer = client.get("/connectors", headers={"Host": host})
    assert answer.status_code == answer.json()["error_code"] == 403
    assert "rest.allowed.hosts" in answer.json()["message"]


def test_all_hosts_may_be_allowed() -> None:
    with serving(scripted({"connectors": []}), {"rest.allowed.hosts": ["*"]}) as client:
        assert client.get("/connectors", headers={"Host": "any.example.com"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Origin": "null", "X-Forwarded-Host": ""},
        {"Origin": EVIL, "X-Forwarded-Host": "console.example.com"},
        {"Origin": "https://connect.example.com:80", "Host": "connect.example.com"},
        {"Origin": EVIL, "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(headers: Mapping[str, str]) -> None:
    herder = scripted({"connectors": []})
    with serving(herder, SETTINGS) as client:
        answer = client.put("/connectors/c/pause", headers=headers)
        assert answer.status_code == answer.json()["error_code"] == 403
        assert "access.control.allow.origin" in answer.json()["message"]
        assert client.delete("/connectors/c", headers=headers).status_code == 403
        assert herder.asked == []
        # The page does not get what a browser reads for it.
        read = client.get("/connectors", headers=headers)
        assert (read.status_code, read.headers.get("access-control-allow-origin")) == (200, None)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://ui.example.com", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://connect.example.com", "Host": "connect.example.com"},
        {"Origin": "https://connect.example.com", "Host": "connect.example.com", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://console.example.com", "Sec-Fetch-Site": "same-origin"},  # a proxy has changed the host
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://connect.example.com", "Host": "connect.example.com:443"},
        {"Origin": "http://connect.example.com", "Host": "connect.example.com:80"},
        {"Origin": "https://console.example.com", "X-Forwarded-Host": "console.example.com"},
        {"Origin": "https://console.example.com", "X-Forwarded-Host": "console.example.com:443, lb.example.com"},
    ],
)
def test_its_own_pages_allowed_ones_and_programs_may(client: Any, headers: Mapping[str, str]) -> None:
    assert client.put("/connectors/c/pause", headers=headers).status_code == 202


def test_the_preflight_of_an_allowed_origin_is_answered(client: httpx.Client) -> None:
    preflight = {"Origin": "http://ui.example.com", "Access-Control-Request-Method": "PUT"}
    assert client.options("/connectors/c/pause", headers=preflight).status_code == 200
    assert client.options("/connectors/c/pause", headers={**preflight, "Origin": EVIL}).status_code == 400


@pytest.fixture
def resolver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the machine's resolver."""
    file = tmp_path / "resolv.conf"
    monkeypatch.setattr(guard, "_RESOLVER", file)
    return file


def status(host: str) -> int:
    with serving(scripted({"connectors": []})) as client:
        return client.get("/connectors", headers={"Host": host}).status_code


def test_domains_that_the_machine_searches_are_its_own(resolver: Path) -> None:
    resolver.write_text("nameserver 10.0.0.1\n\n# search other.example.com\nsearch eu.example.com com k8s svc.k8s.\n")
    hosts = ["w1.eu.example.com", "connect.kafka.svc.k8s", "w1.example.com", "evil.com", "w1.other.example.com"]
    assert [status(host) for host in hosts] == [200, 200, 403, 403, 403]


def test_a_service_of_the_cluster_is_known_by_its_namespace(resolver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace may be called as a public domain, so that its name alone says nothing."""
    resolver.write_text("search dev.svc.cluster.local svc.cluster.local cluster.local\n")
    asked, resolve = list[str](), socket.getaddrinfo

    def answer(host: Any, *given: Any, **more: Any) -> Any:
        if not str(host).endswith("cluster.local."):
            return resolve(host, *given, **more)
        asked.append(host)
        if host != "connect.dev.svc.cluster.local.":
            raise socket.gaierror
        return resolve("127.0.0.1", *given[:1])

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    assert [status(host) for host in ("connect.dev:8083", "evil.dev", "a.evil.dev")] == [200, 403, 403]
    assert asked == ["connect.dev.svc.cluster.local.", "evil.dev.svc.cluster.local."]


def test_a_refused_host_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with serving(scripted({"connectors": []}), SETTINGS) as client:
        for _ in range(3):
            client.get("/connectors", headers={"Host": "evil.example.com"})
    told = [one for one in caplog.records if "rest.allowed.hosts" in one.getMessage()]
    assert [one.levelname for one in told] == ["WARNING"]
