from __future__ import annotations

import pytest

from headrace.config.settings import ConfigError
from headrace.config.worker.listeners import (
    Listener,
    advertised,
    advertised_url,
    machine_host,
    parse_listener,
    parse_listeners,
    worker_id,
)


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("http://:8083", Listener("http", "", 8083)),
        ("HTTP://localhost:0", Listener("http", "localhost", 0)),
        ("http://[::1]:8083", Listener("http", "::1", 8083)),
        ("https://a-b.example:1", Listener("https", "a-b.example", 1)),
    ],
)
def test_listeners_are_read(text: str, listener: Listener) -> None:
    assert parse_listener(text) == listener


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo", "Listener doesn't have the right format (protocol://hostname:port)."),
        ("http://a:8083/connect x", "Listener doesn't have the right format (protocol://hostname:port)."),
        ("http://a", "Listener doesn't have the right format (protocol://hostname:port)."),
        ("ftp://a:1", 'Listener protocol must be either "http" or "https".'),
        ("http://a:70000", "Listener port must be from 0 to 65535."),
        ("http://a:-1", "Listener port must be from 0 to 65535."),
    ],
)
def test_wrong_listeners_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_listener(text)
    assert caught.value.problems[0].message == message


def test_all_wrong_listeners_are_told() -> None:
    assert parse_listeners(["http://:1", "https://:2"]) == [Listener("http", "", 1), Listener("https", "", 2)]
    with pytest.raises(ConfigError) as caught:
        parse_listeners(["http://:1", "foo", "ftp://:2"])
    assert [problem.value for problem in caught.value.problems] == ["foo", "ftp://:2"]


def test_what_a_worker_calls_itself() -> None:
    http, https = Listener("http", "", 8083), Listener("https", "secure", 8443)
    assert advertised([https, http], fallback_host="10.0.0.1") == Listener("http", "10.0.0.1", 8083)
    assert advertised([http, https], scheme="HTTPS") == https
    assert advertised([https], fallback_host="x") == https
    assert advertised([http], host="h", port=99) == Listener("http", "h", 99)
    assert advertised([http.bound(40123)], host="h", port=0) == Listener("http", "h", 40123)
    assert advertised([http]).host == machine_host()
    with pytest.raises(ConfigError, match="no listener with protocol https"):
        advertised([http], scheme="https")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://:8083", "http://127.0.0.1:8083 (all interfaces)"),
        ("http://0.0.0.0:8083", "http://127.0.0.1:8083 (all interfaces)"),
        ("http://[::]:8083", "http://[::1]:8083 (all interfaces)"),
        ("http://[::1]:8083", "http://[::1]:8083"),
        ("http://worker.example:1", "http://worker.example:1"),
    ],
)
def test_people_are_shown_an_address_that_answers(text: str, shown: str) -> None:
    assert parse_listener(text).shown == shown


def test_url_and_worker_id() -> None:
    assert advertised_url(Listener("http", "h", 8083)) == "http://h:8083/"
    assert advertised_url(Listener("http", "::1", 8083)) == "http://[::1]:8083/"
    assert worker_id(Listener("http", "h", 8083)) == "h:8083"
