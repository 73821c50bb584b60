"""Bearer tokens: which are taken, and what happens while the keys cannot be fetched."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.rest.security import jwks
from headrace.rest.security.jwks import KeySet, UrlKeys, keys_at
from headrace.rest.security.principal import Principal
from headrace.rest.security.refusals import Unchecked, WrongLogin
from headrace.rest.security.tokens import Tokens
from tests.unit.rest.conftest import SETTINGS
from tests.unit.rest.security.issuer import AUDIENCE, ISSUER, JwksServer, jwk, token

KEY = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
ALL = [jwk(KEY, "k1", use="sig"), jwk(EC, "ec"), jwk(ED, "ed"), jwk(OTHER, "enc", use="enc")]


def tokens(url: str, **settings: str) -> Tokens:
    given = {
        "rest.bearer.jwks.endpoint.url": url,
        "rest.bearer.expected.issuer": ISSUER,
        "rest.bearer.expected.audience": f"other,{AUDIENCE}",
        **{f"rest.bearer.{key.replace('_', '.')}": value for key, value in settings.items()},
    }
    return Tokens.of(WorkerConfig.standalone({**SETTINGS, **given}).values)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": ALL}))
    return path.as_uri()


@pytest.fixture
def server() -> Iterator[JwksServer]:
    one = JwksServer([jwk(KEY, "k1")])
    yield one
    one.stop()


def principal(of: Tokens, text: str) -> Principal:
    return asyncio.run(of.principal(text))


@pytest.mark.parametrize(
    ("key", "kid", "algorithm"),
    [(KEY, "k1", "RS256"), (KEY, "k1", "PS512"), (EC, "ec", "ES256"), (ED, "ed", "EdDSA"), (EC, None, "ES256")],
)
def test_tokens_of_the_issuer_are_taken(file: str, key: Any, kid: str | None, algorithm: str) -> None:
    assert principal(tokens(file), token(key, kid, algorithm)) == Principal("ann")


def unsigned() -> str:
    parts = ({"alg": "none"}, {"sub": "ann", "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 300})
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts), ""])


# Made when a test runs: what was made as tests are collected has expired by then.
REFUSED: dict[str, tuple[Callable[[], str], str]] = {
    "expired": (lambda: token(KEY, exp=time.time() - 60), "expired"),
    "not yet": (lambda: token(KEY, nbf=time.time() + 3000), "not valid yet"),
    "without end": (lambda: token(KEY, exp=None), "missing"),
    "another issuer": (lambda: token(KEY, iss="https://evil.example"), "issuer"),
    "no issuer": (lambda: token(KEY, iss=None), "missing"),
    "another audience": (lambda: token(KEY, aud="kafka"), "audience"),
    "no audience": (lambda: token(KEY, aud=None), "missing"),
    "another's key": (lambda: token(OTHER), "signature is wrong"),
    "unknown key": (lambda: token(OTHER, "k9"), "the JWKS does not have"),
    "a key for encryption": (lambda: token(OTHER, "enc"), "the JWKS does not have"),
    "another kind of key": (lambda: token(KEY, "ec"), "the JWKS does not have"),
    "symmetric": (lambda: token("x" * 64, algorithm="HS256"), "algorithm is not one of"),
    "unsigned": (unsigned, "algorithm is not one of"),
    "no name": (lambda: token(KEY, sub=None), "no text as claim sub"),
    "a blank name": (lambda: token(KEY, sub=" "), "no text as claim sub"),
    "no token": (lambda: "hunter2.hunter2.hunter2", "it is no JWT"),
    "nothing": (lambda: "", "it is no JWT"),
    "long": (lambda: "x" * 20_000, "more than"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_all_others_are_refused_with_the_reason_alone(file: str, name: str) -> None:
    made, why = REFUSED[name]
    text = made()
    with pytest.raises(WrongLogin, match=why) as refused:
        principal(tokens(file), text)
    assert "hunter2" not in str(refused.value)
    assert text[:30] not in str(refused.value) or not text


def test_clocks_may_differ_as_much_as_is_set(file: str) -> None:
    late = token(KEY, exp=time.time() - 20)
    assert principal(tokens(file), late).name == "ann"
    with pytest.raises(WrongLogin, match="expired"):
        principal(tokens(file, clock_skew_seconds="0"), late)


def test_principal_and_groups_are_the_claims_that_are_set(file: str) -> None:
    claims = {
        "email": "ann@example.com",
        "groups": ["ops", 1, "dev"],
        "realm_access": {"roles": ["admin"]},
        "https://x.example/groups": "a b,c",
    }
    given = token(KEY, **claims)
    assert principal(tokens(file), given) == Principal("ann", frozenset({"ops", "dev"}))
    assert principal(tokens(file, sub_claim_name="email"), given).name == "ann@example.com"
    assert principal(tokens(file, groups_claim_name="realm_access.roles"), given).groups == {"admin"}
    assert principal(tokens(file, groups_claim_name="https://x.example/groups"), given).groups == {"a", "b", "c"}
    assert principal(tokens(file, groups_claim_name="not.there"), given).groups == frozenset()


def test_keys_in_a_file_are_reread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.rest.security.watched_file._LOOK_S", 0.0)
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [jwk(OTHER, "k0")]}))
    of = tokens(path.as_uri())
    with pytest.raises(WrongLogin):
        principal(of, token(KEY))
    path.write_text(json.dumps({"keys": [jwk(OTHER, "k0"), jwk(KEY, "k1")]}))
    assert principal(of, token(KEY)).name == "ann"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_unknown_key_is_fetched_at_a_bounded_rate(server: JwksServer) -> None:
    clock = Clock()
    keys = UrlKeys(server.url, 3600, clock)

    async def check() -> None:
        assert all(await asyncio.gather(*(keys.find("k1", "RS256") for _ in range(20))))
        assert server.asked == 1
        for _ in range(50):
            assert await keys.find("k2", "RS256") is None
        assert server.asked == 1
        server.keys = [jwk(OTHER, "k2")]
        clock.now += 11
        assert await keys.find("k2", "RS256") is not None
        assert server.asked == 2
        assert await keys.find("k1", "RS256") is None  # it was taken away
        assert server.asked == 2

    asyncio.run(check())
    keys.stop()


def test_known_keys_go_on_while_the_server_is_away_and_others_are_told(server: JwksServer) -> None:
    clock = Clock()
    keys = UrlKeys(server.url, 60, clock)

    async def check() -> None:
        assert await keys.find("k1", "RS256") is not None
        server.status = 500
        for _ in range(3):
            clock.now += 100
            assert await keys.find("k1", "RS256") is not None
            clock.now += 100
            with pytest.raises(Unchecked, match=r"cannot be fetched from .*/jwks: the answer has status 500") as away:
                await keys.find("k2", "RS256")
            assert away.value.status == 503
            assert "secret" not in str(away.value)
        server.status = 200
        clock.now += 100
        assert await keys.find("k2", "RS256") is None

    asyncio.run(check())
    keys.stop()


def test_a_server_that_hangs_holds_up_nobody_else(server: JwksServer, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    keys = UrlKeys(server.url, 3600, clock)
    end = threading.Event()

    async def check() -> None:
        assert await keys.find("k1", "RS256") is not None
        server.before = lambda: end.wait(60)
        clock.now += 11
        waiting = [asyncio.create_task(keys.find("k2", "RS256")) for _ in range(100)]
        done, held = await asyncio.wait(waiting, timeout=0.3)
        while len(held) > jwks._MOST_WAITING:
            done, held = await asyncio.wait(waiting, timeout=0.05)
        assert len(held) == jwks._MOST_WAITING
        assert all(isinstance(one.exception(), Unchecked) for one in done)
        assert await keys.find("k1", "RS256") is not None
        end.set()
        assert await asyncio.gather(*held) == [None] * len(held)

    asyncio.run(check())
    keys.stop()


def test_a_gone_server_and_what_is_no_jwks_are_said(server: JwksServer) -> None:
    server.keys = []
    for url, why in ((server.url, "no public key"), ("http://127.0.0.1:9/", "cannot be fetched")):
        with pytest.raises(Unchecked, match=why):
            asyncio.run(UrlKeys(url, 60).find("k1", "RS256"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": {}}', '{"keys": [1]}', '{"keys": [{"kty": "oct"}]}'])
def test_what_is_no_jwks_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it "):
        KeySet.of(text.encode())


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/jwks",
        "ftp://x/",
        "/jwks.json",
        "https://",
        "https://u:hunter2@issuer.example/",
        "http://localhost.evil.example/",
        "https://[::1",
        "file:///nowhere/jwks.json",
    ],
)
def test_keys_come_from_safe_places_only(url: str) -> None:
    with pytest.raises(ConfigError, match=r"rest\.bearer\.jwks\.endpoint\.url") as refused:
        keys_at(url, 60)
    assert "hunter2" not in str(refused.value)


def test_issuer_and_audience_are_required() -> None:
    settings = WorkerConfig.standalone({**SETTINGS, "rest.bearer.jwks.endpoint.url": "https://i.example/"}).values
    with pytest.raises(ConfigError) as refused:
        Tokens.of(settings)
    assert {one.key for one in refused.value.problems} == {
        "rest.bearer.expected.issuer",
        "rest.bearer.expected.audience",
    }
