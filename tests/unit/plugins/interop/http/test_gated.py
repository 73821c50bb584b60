"""HTTP within `connector.allowed.hosts`: redirects, proxies, and names that have another address the second time."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker import allowed_hosts
from headrace.config.worker.allowed_hosts import ALLOWED_HOSTS, AllowedHosts, HostUnknown
from headrace.plugins.interop.http.gated import GatedTransport
from tests.unit.converters.registry.scripted_registry import ScriptedRegistry, identity, scripted


class Resolver:
    """Answers each question about a name with the next of its addresses, the last for good; `asked` has all names."""

    def __init__(self) -> None:
        self.known: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []

    def __call__(self, host: str, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(host)
        answers = self.known.get(host, [[host]])
        return [(2, 1, 6, "", (address, 0)) for address in (answers.pop(0) if len(answers) > 1 else answers[0])]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    found = Resolver()
    monkeypatch.setattr(allowed_hosts, "_resolved", found)
    return found


@pytest.fixture
def server() -> Iterator[ScriptedRegistry]:
    with scripted((200, {"ok": True})) as played:
        yield played


def client(*patterns: str, proxy: str | None = None, verify: ssl.SSLContext | bool = True) -> httpx.Client:
    transport = GatedTransport(AllowedHosts.of({ALLOWED_HOSTS: patterns}), verify, proxy)
    return httpx.Client(transport=transport, follow_redirects=True, timeout=60)


def port(server: ScriptedRegistry) -> str:
    return server.url.rpartition(":")[2]


def redirect(place: str) -> Any:
    def answer(handler: Any) -> None:
        handler.send_response(307)
        handler.send_header("Location", place)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def test_the_address_that_was_judged_is_the_one_connected_to(server: ScriptedRegistry, resolver: Resolver) -> None:
    resolver.known["db.test"] = [["127.0.0.1"], ["169.254.169.254"]]  # as DNS rebinding has it
    with client("*.test") as http:
        assert http.get(f"http://db.test:{port(server)}/").json() == {"ok": True}
    assert resolver.asked == ["db.test"]
    assert server.asked[0].headers["Host"] == f"db.test:{port(server)}"


def test_the_next_address_is_tried_where_one_does_not_answer(server: ScriptedRegistry, resolver: Resolver) -> None:
    resolver.known["db.test"] = [["127.0.0.2", "127.0.0.1"]]  # the server listens on one address
    with client("*.test") as http:
        assert http.get(f"http://db.test:{port(server)}/").json() == {"ok": True}


def test_a_refused_address_is_never_connected_to(server: ScriptedRegistry, resolver: Resolver) -> None:
    resolver.known["db.test"] = [["10.9.9.9", "127.0.0.1"]]
    with client("127.0.0.0/8") as http, pytest.raises(ConfigError, match=r"the host db\.test \(10\.9\.9\.9\)"):
        http.get(f"http://db.test:{port(server)}/")
    assert not server.asked


def test_a_redirect_leads_to_allowed_hosts_only(server: ScriptedRegistry, resolver: Resolver) -> None:
    resolver.known["inner.test"] = [["127.0.0.1"], ["10.0.0.1"]]
    place = f"http://inner.test:{port(server)}/x"
    with scripted((0, redirect(place))) as first:
        with client("127.0.0.1") as http:
            assert http.get(first.url).json() == {"ok": True}
        with client("127.0.0.1") as http, pytest.raises(ConfigError, match=r"inner\.test \(10\.0\.0\.1\)"):
            http.get(first.url)
    with (
        scripted((0, redirect("http://169.254.169.254/latest/meta-data"))) as first,
        client("*") as http,
        pytest.raises(ConfigError, match=r"169\.254\.169\.254"),
    ):
        http.get(first.url)


def test_a_proxy_is_judged_and_so_is_what_it_is_to_reach(server: ScriptedRegistry, resolver: Resolver) -> None:
    resolver.known["proxy.test"], resolver.known["far.test"] = [["127.0.0.1"]], [["10.0.0.1"]]
    proxy = f"http://proxy.test:{port(server)}"
    with client("proxy.test", "far.test", proxy=proxy) as http:
        assert http.get("http://far.test/").json() == {"ok": True}
    assert server.asked[0].path == "http://far.test/"
    for patterns in (("proxy.test",), ("far.test",)):
        with client(*patterns, proxy=proxy) as http, pytest.raises(ConfigError, match=ALLOWED_HOSTS):
            http.get("http://far.test/")
    assert len(server.asked) == 1


def test_certificates_are_still_for_the_name(resolver: Resolver, tmp_path: Path) -> None:
    resolver.known["other.test"] = [["127.0.0.1"]]
    own = identity("127.0.0.1")
    context = ssl.create_default_context(cadata=own.certificate_pem)
    shown = own.server_context(tmp_path)
    with scripted((200, {"ok": True}), context=shown) as played, client("*", verify=context) as http:
        assert http.get(played.url).json() == {"ok": True}
        with pytest.raises(httpx.ConnectError, match="certificate"):
            http.get(f"https://other.test:{port(played)}/")


def test_a_name_without_address(resolver: Resolver) -> None:
    resolver.known["gone.test"] = [[]]
    with client("*.test") as http, pytest.raises(httpx.ConnectError, match="no address is known"):
        http.get("http://gone.test/")
    with client("10.0.0.0/8") as http, pytest.raises(HostUnknown):
        http.get("http://gone.test/")
