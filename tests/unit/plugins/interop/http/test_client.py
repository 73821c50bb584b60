"""The HTTP client that the registry and the connectors share: redirects, bounds, errors without secrets, tokens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker.allowed_hosts import ALL_NAMES, ALLOWED_HOSTS, AllowedHosts
from headrace.plugins.interop.http.client import HttpAnswer, HttpClient, ServerUnavailable, UnsendableRequest, masked
from headrace.plugins.interop.http.tokens import OAuthTokens
from tests.unit.converters.registry.scripted_registry import ScriptedRegistry, scripted, send


def client(allowed: AllowedHosts = ALL_NAMES, **further: Any) -> Any:
    return closing(HttpClient(allowed, **({"connect_s": 10.0, "read_s": 30.0} | further)))


@pytest.fixture
def other() -> Iterator[ScriptedRegistry]:
    with scripted((200, {"other": True})) as played:
        yield played


def redirect(place: str, status: int = 302) -> Any:
    def answer(handler: Any) -> None:
        handler.send_response(status)
        handler.send_header("Location", place)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return status, answer


def test_a_redirect_is_followed_with_its_headers_on_the_same_server() -> None:
    with scripted(redirect("/there?x=1"), (200, {"ok": True})) as played, client() as http:
        answer = http.fetch(f"{played.url}/here", key="url", headers={"X-Api-Key": "k"})
        assert (answer.status, answer.body) == (200, b'{"ok": true}')
        assert [(one.path, one.headers["X-Api-Key"]) for one in played.asked] == [("/here", "k"), ("/there?x=1", "k")]


def test_another_server_gets_no_header_that_may_be_secret(other: ScriptedRegistry) -> None:
    with scripted(redirect(f"{other.url}/there")) as played, client() as http:
        http.fetch(played.url, key="url", headers={"X-Api-Key": "k", "Authorization": "Basic eA==", "accept": "a/b"})
        sent = {name.lower(): value for name, value in other.asked[0].headers.items()}
        assert sent["accept"] == "a/b"
        assert not {"x-api-key", "authorization"} & sent.keys()


def test_a_redirect_to_a_host_that_is_not_allowed_is_refused() -> None:
    allowed = AllowedHosts.of({ALLOWED_HOSTS: ("127.0.0.1/32",)})
    forbidden = r"^url \(= '169\.254\.169\.254'"
    with (
        scripted(redirect("http://169.254.169.254/latest")) as played,
        client(allowed) as http,
        pytest.raises(ConfigError, match=forbidden),
    ):
        http.fetch(played.url, key="url")


def test_redirects_end() -> None:
    with scripted(redirect("/again")) as played, client() as http, pytest.raises(ServerUnavailable, match="more than"):
        http.fetch(played.url, key="url")
    assert len(played.asked) == 10


def test_an_exchange_follows_no_redirect() -> None:
    with scripted(redirect("/there")) as played, client() as http:
        assert http.exchange("POST", played.url, key="url", body=b"x").status == 302
        assert len(played.asked) == 1


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("ftp://127.0.0.1/secret", {}),
        ("no-scheme/secret", {}),
        ("http://127.0.0.1:1/", {"X": "secret\r\nY: 1"}),
        ("http://127.0.0.1:1/", {"X": "sécret-ü\u20ac"}),
    ],
)
def test_what_http_cannot_carry_is_told_without_its_secrets(url: str, headers: dict[str, str]) -> None:
    with scripted((200, {})) as played, client() as http:
        target = url.replace("http://127.0.0.1:1", played.url)
        with pytest.raises(UnsendableRequest) as failed:
            http.exchange("GET", target, key="url", headers=headers)
        assert "secret\r" not in str(failed.value)
        assert "sécret" not in str(failed.value)


def test_cookies_are_not_kept() -> None:
    def cookie(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Set-Cookie", "session=1; Path=/")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with scripted((200, cookie)) as played, client() as http:
        for _ in range(2):
            http.exchange("GET", played.url, key="url")
        assert "Cookie" not in played.asked[1].headers


def test_a_large_answer_is_given_up() -> None:
    with (
        scripted((200, b"x" * (3 << 20))) as played,
        client(largest_bytes=1 << 20) as http,
        pytest.raises(ServerUnavailable, match="larger than 1 MiB"),
    ):
        http.exchange("GET", played.url, key="url")


def test_half_an_answer_is_none() -> None:
    def half(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"half")

    with scripted((200, half)) as played, client() as http, pytest.raises(ServerUnavailable):
        http.exchange("GET", played.url, key="url")


def test_headers_of_the_answer_are_given_in_lower_case() -> None:
    def later(handler: Any) -> None:
        handler.send_response(429)
        handler.send_header("Retry-After", "7")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with scripted((429, later)) as played, client() as http:
        assert http.exchange("GET", played.url, key="url").headers["retry-after"] == "7"


def test_a_url_is_shown_without_login_and_query() -> None:
    assert masked("http://u:p@h:1/a?token=t#x") == "http://[hidden]@h:1/a"


def tokens(*answers: HttpAnswer, **further: Any) -> tuple[OAuthTokens, list[float]]:
    left, asked = list(answers), []

    def fetch(until_s: float) -> HttpAnswer:
        asked.append(until_s)
        return left.pop(0)

    return OAuthTokens(fetch, lambda status: ConfigError([]), **further), asked


def test_a_token_without_an_end_is_kept_until_it_is_forgotten() -> None:
    found, asked = tokens(
        HttpAnswer(200, b'{"t": "one"}'),
        HttpAnswer(200, b'{"t": "two", "token_type": "MAC"}'),
        property="t",
        lifetime_s=1e9,
    )
    first = found.current(time.monotonic() + 60)
    assert (first.text, first.type) == ("one", "Bearer")
    assert found.current(0) == first
    found.forget(first)
    second = found.current(0)
    assert (second.text, second.type) == ("two", "MAC")
    found.forget(first)  # another thread's answer to the former token
    assert found.current(0) == second
    assert len(asked) == 2


UNUSABLE = [
    HttpAnswer(200, json.dumps({"access_token": token}).encode()) for token in (None, "", 7, "a\r\nb", "s\u00e9cret")
]


@pytest.mark.parametrize("answer", [HttpAnswer(401, b""), HttpAnswer(200, b"{}"), HttpAnswer(200, b"[1]"), *UNUSABLE])
def test_an_answer_without_a_token_is_the_configs_fault(answer: HttpAnswer) -> None:
    found, _ = tokens(answer)
    with pytest.raises(ConfigError):
        found.current(0)


def test_a_closed_client_sends_nothing() -> None:
    with scripted((200, send)) as played:
        http = HttpClient(ALL_NAMES, connect_s=1, read_s=1)
        http.close()
        with pytest.raises(ServerUnavailable, match="closed"):
            http.exchange("GET", played.url, key="url")
