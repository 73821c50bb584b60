from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kafka import errors

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.kafka.client_oauth import Assertion, OAuth
from headrace.plugins.interop.kafka.tokens import KafkaTokens, fetched, kafka_python, signed
from tests.unit.converters.registry.scripted_registry import identity, scripted

NOW = 1_000_000.0
KEY = rsa.generate_private_key(65537, 2048)


def token(lifetime_s: float = 100, **claims: Any) -> dict[str, Any]:
    """An answer with a signed token that ends so long after NOW."""
    return {"access_token": jwt.encode({"sub": "me", "exp": NOW + lifetime_s, **claims}, "k" * 32)}


def oauth(url: str, **settings: Any) -> OAuth:
    return OAuth(f"{url}/token", **{"client_id": "me", "client_secret": "open sesame", "scope": "kafka", **settings})


def test_a_token_is_fetched_once_and_anew_before_it_expires() -> None:
    now = NOW
    first, second = token(100), token(1_000)
    with scripted((200, first), (200, second)) as idp:
        tokens = KafkaTokens(partial(fetched, oauth(idp.url)), {"a": "b"}, lambda: now)
        assert [tokens.token(), tokens.token()] == [first["access_token"]] * 2
        now = NOW + 79
        assert tokens.token() == first["access_token"]
        now = NOW + 81
        assert tokens.token() == second["access_token"]
    assert len(idp.asked) == 2
    assert tokens.extensions() == {"a": "b"}
    asked = idp.asked[0]
    login = base64.b64decode(asked.headers["Authorization"].removeprefix("Basic ")).decode()
    assert (asked.path, login) == ("/token", "me:open sesame")
    assert parse_qs(asked.body) == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


def test_while_the_provider_is_away_the_token_is_used_until_it_expires() -> None:
    now = NOW
    good = token(100)
    with scripted((200, good), (503, {})) as idp:
        tokens = KafkaTokens(partial(fetched, oauth(idp.url)), clock=lambda: now)
        tokens.token()
        now = NOW + 90
        assert [tokens.token(), tokens.token()] == [good["access_token"]] * 2
        assert len(idp.asked) == 2, "after a failure there is a pause"
        now = NOW + 101
        with pytest.raises(errors.KafkaConnectionError, match=r"gave no token \(HTTP status 503\); it is tried again"):
            tokens.token()


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (
            (401, {"error": "invalid_client", "error_description": "wrong secret"}),
            errors.SaslAuthenticationFailedError,
            r"HTTP status 401, invalid_client wrong secret\); look at clientId, clientSecret",
        ),
        ((302, {}), errors.SaslAuthenticationFailedError, "HTTP status 302"),
        ((200, b"<html>"), errors.SaslAuthenticationFailedError, "gave no token"),
        ((200, {"token": "x"}), errors.SaslAuthenticationFailedError, "without access_token"),
        ((200, token(-1)), errors.SaslAuthenticationFailedError, "clocks"),
        ((200, {"access_token": "opaque"}), errors.SaslAuthenticationFailedError, "says no time"),
        (
            (200, {"access_token": jwt.encode({"sub": "me", "exp": NOW + 9}, None, "none")}),
            errors.SaslAuthenticationFailedError,
            "without signature: it is refused",
        ),
        ((200, b"x" * (2 << 20)), errors.KafkaConnectionError, "too much"),
    ],
)
def test_answers_without_a_good_token_are_told(answer: tuple[int, Any], error: type[Exception], said: str) -> None:
    with scripted(answer) as idp, pytest.raises(error, match=said) as caught:
        fetched(oauth(idp.url), NOW)
    assert "open sesame" not in str(caught.value)


def test_an_opaque_token_lives_as_long_as_the_answer_says() -> None:
    with scripted((200, {"access_token": "opaque", "expires_in": 60})) as idp:
        assert fetched(oauth(idp.url), NOW) == ("opaque", NOW + 60)


def test_a_provider_that_does_not_answer_is_left_in_time() -> None:
    def slow(handler: Any) -> None:
        time.sleep(0.5)
        handler.send_error(500)

    with scripted((0, slow)) as idp, pytest.raises(errors.KafkaConnectionError, match="gave no token"):
        fetched(oauth(idp.url, read_s=0.1), NOW)
    with pytest.raises(errors.KafkaConnectionError, match="can be reached"):
        fetched(oauth("http://127.0.0.1:1"), NOW)


def test_the_providers_certificate_is_checked_against_the_login_modules_trust_store(tmp_path: Path) -> None:
    its, other = identity("idp"), identity("other")
    with scripted((200, token()), context=its.server_context(tmp_path)) as idp:
        fetched(oauth(idp.url, authorities=its.certificate_pem), NOW)
        for authorities in (other.certificate_pem, None):
            with pytest.raises(errors.KafkaConnectionError, match=r"(?s)certificate.*ssl\.truststore"):
                fetched(oauth(idp.url, authorities=authorities), NOW)
    assert len(idp.asked) == 1


def key_file(folder: Path, passphrase: str = "") -> str:
    locked = serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
    path = folder / "key.pem"
    path.write_bytes(KEY.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))
    return str(path)


def read(text: str, issuer: str) -> Mapping[str, Any]:
    """The claims of a signed assertion."""
    found: Mapping[str, Any] = jwt.decode(text, KEY.public_key(), ["RS256"], audience="idp", issuer=issuer)
    return found


def test_an_assertion_is_signed_and_exchanged(tmp_path: Path) -> None:
    claims = (("aud", "idp"), ("iss", "us"), ("sub", "worker"))
    made = Assertion(key_file=key_file(tmp_path, "p4ss"), passphrase="p4ss", claims=claims, with_id=True)
    with scripted((200, token())) as idp:
        began = int(time.time())
        fetched(OAuth(f"{idp.url}/token", assertion=made, scope="kafka"), NOW)
        asked = parse_qs(idp.asked[0].body)
    assert "Authorization" not in idp.asked[0].headers
    assert asked["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    assert asked["scope"] == ["kafka"]
    assert jwt.get_unverified_header(asked["assertion"][0])["alg"] == "RS256"
    now = time.time()
    found = read(signed(made, now), "us")
    assert found["sub"] == "worker"
    assert (found["exp"] - found["iat"], found["iat"] - found["nbf"]) == (300, 60)
    assert found["iat"] >= began
    assert found["jti"] != read(signed(made, now), "us")["jti"]


def test_an_assertion_by_a_template_or_from_a_file(tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"header": {"kid": "k1"}, "payload": {"iss": "template", "aud": "idp"}}))
    made = Assertion(key_file=key_file(tmp_path), template_file=str(template), claims=(("iss", "us"),))
    text = signed(made, time.time())
    assert jwt.get_unverified_header(text)["kid"] == "k1"
    read(text, "template")
    ready = tmp_path / "ready.jwt"
    ready.write_text(text + "\n")
    assert signed(Assertion(file=str(ready)), NOW) == text


def test_a_key_that_cannot_sign_is_told_with_the_settings(tmp_path: Path) -> None:
    claims = (("aud", "idp"),)
    locked = Assertion(key_file=key_file(tmp_path, "p4ss"), passphrase="wrong", claims=claims)
    for bad in (locked, replace(locked, passphrase=None), replace(locked, passphrase="p4ss", algorithm="ES256")):
        with pytest.raises(errors.SaslAuthenticationFailedError, match=r"sasl\.oauthbearer\.assertion") as caught:
            fetched(OAuth("http://127.0.0.1:1/token", assertion=bad), NOW)
        assert "p4ss" not in str(caught.value)


def test_clients_of_kafka_python_have_their_source_of_tokens() -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    java = {"bootstrap.servers": "h:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    with scripted((200, {"access_token": "opaque", "expires_in": 60})) as idp:
        java["sasl.oauthbearer.token.endpoint.url"] = idp.url
        java["sasl.jaas.config"] = f'{module} required clientId="i" clientSecret="s" extension_pool="p";'
        provider = kafka_python(ClientConfig("admin", java))["sasl_oauth_token_provider"]
        assert (provider.token(), provider.extensions()) == ("opaque", {"pool": "p"})
    assert "sasl_oauth_token_provider" not in kafka_python(ClientConfig("admin", {"bootstrap.servers": "h:1"}))
