from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import parse_qs

import jwt
import pytest
from confluent_kafka import Producer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kafka.errors import SaslAuthenticationFailedError

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.kafka.client_oauth import JWT_BEARER_RETRIEVER, LOGIN_MODULE, OAuth
from headrace.config.problems import ConfigError
from headrace.plugins.interop.kafka.tokens import fetched
from tests.unit.converters.registry.scripted_registry import identity, scripted

PREFIX = "sasl.oauthbearer."
BASE = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    f"{PREFIX}token.endpoint.url": "https://idp/token",
}


def jaas(options: str) -> dict[str, str]:
    return {"sasl.jaas.config": f"{LOGIN_MODULE} required {options};"}


def client(java: dict[str, str]) -> ClientConfig:
    return ClientConfig("producer", BASE | java)


def oauth(java: dict[str, str]) -> OAuth:
    """Of a client whose settings librdkafka takes."""
    made = client(java)
    Producer(made.librdkafka())
    assert made.login.oauth is not None
    return made.login.oauth


@pytest.mark.parametrize(
    ("java", "said"),
    [
        (jaas('unsecuredLoginStringClaim_sub="admin"'), "Unsecured tokens are refused"),
        (jaas('clientId="i"'), "It has no clientId and clientSecret"),
        (jaas('clientId="i" clientSecret="s3cret" ssl.keystore.location="/k"'), "ssl.keystore.location is not served"),
        (jaas('clientId="i" clientSecret="s3cret" ssl.truststore.location="/none"'), "/none cannot be read"),
        ({f"{PREFIX}jwt.retriever.class": "com.example.Mine"}, "refused: it would load code"),
        ({f"{PREFIX}jwt.retriever.class": JWT_BEARER_RETRIEVER}, "Tokens by jwt-bearer need it"),
        (
            {f"{PREFIX}jwt.retriever.class": JWT_BEARER_RETRIEVER, f"{PREFIX}assertion.file": "/none"},
            "There is no such file",
        ),
        (
            {f"{PREFIX}jwt.retriever.class": JWT_BEARER_RETRIEVER, f"{PREFIX}assertion.private.key.file": __file__},
            "The assertion would name nobody",
        ),
    ],
)
def test_what_is_refused(java: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        client(java)
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_secret_is_encoded_where_that_is_asked_for() -> None:
    java = jaas('clientId="a:b" clientSecret="c d"')
    assert oauth(java).client_secret == "c d"
    encoded = oauth(java | {f"{PREFIX}header.urlencode": "true"})
    assert (encoded.client_id, encoded.client_secret) == ("a%3Ab", "c+d")


def test_the_login_modules_trust_store_is_for_the_token_endpoint(tmp_path: Path) -> None:
    its = identity("idp").certificate_pem
    (tmp_path / "ca.pem").write_text(its)
    options = f'clientId="i" clientSecret="s" ssl.truststore.location="{tmp_path}/ca.pem"'
    assert oauth(jaas(options)).authorities == its
    assert client(jaas(options)).librdkafka()["https.ca.pem"] == its


def test_assertions_are_signed_by_librdkafka_too(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text(identity("me").pem)
    by_key = {
        f"{PREFIX}jwt.retriever.class": JWT_BEARER_RETRIEVER,
        f"{PREFIX}assertion.private.key.file": str(key),
        f"{PREFIX}assertion.private.key.passphrase": "p",
        f"{PREFIX}assertion.algorithm": "es256",
        f"{PREFIX}assertion.claim.sub": "worker",
        f"{PREFIX}assertion.claim.exp.seconds": "120",
        f"{PREFIX}assertion.claim.jti.include": "true",
        f"{PREFIX}scope": "kafka",
    }
    made = oauth(by_key).assertion
    assert made is not None
    assert (made.algorithm, made.claims, made.expires_s, made.with_id) == ("ES256", (("sub", "worker"),), 120, True)
    by_file = {f"{PREFIX}jwt.retriever.class": JWT_BEARER_RETRIEVER, f"{PREFIX}assertion.file": str(key)}
    assert "sasl.oauthbearer.assertion.claim.exp.seconds" not in client(by_file).librdkafka()
    oauth(by_file)


def test_librdkafka_sends_what_our_own_source_of_tokens_sends(tmp_path: Path) -> None:
    secret = rsa.generate_private_key(65537, 2048)
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(secret.private_bytes(*plain))
    with scripted((401, {"error": "invalid_client"})) as idp:
        java = {
            f"{PREFIX}token.endpoint.url": idp.url,
            f"{PREFIX}jwt.retriever.class": JWT_BEARER_RETRIEVER,
            f"{PREFIX}assertion.private.key.file": str(tmp_path / "key.pem"),
            **{f"{PREFIX}assertion.claim.{name}": name for name in ("aud", "iss", "sub")},
            f"{PREFIX}assertion.claim.jti.include": "true",
            f"{PREFIX}scope": "kafka",
        }
        made = client(java)
        producer = Producer({**made.librdkafka(), "log_level": 0})
        until = time.monotonic() + 60
        while not idp.asked and time.monotonic() < until:
            producer.poll(0.05)
        assert made.login.oauth is not None
        with pytest.raises(SaslAuthenticationFailedError):
            fetched(made.login.oauth, time.time())
        forms = [parse_qs(asked.body) for asked in (idp.asked[0], idp.asked[-1])]
    claims = [jwt.decode(form.pop("assertion")[0], secret.public_key(), ["RS256"], audience="aud") for form in forms]
    assert forms[0] == forms[1]
    assert claims[0].keys() == claims[1].keys()
    assert [one["exp"] - one["iat"] for one in claims] == [300, 300]
    assert [one["sub"] for one in claims] == ["sub", "sub"]
