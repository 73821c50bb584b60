from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from headrace.config.kafka.client_security import Jaas, _jaas_text, login, parse_jaas, tls
from headrace.config.settings import Problem

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\nAAAA\n-----END CERTIFICATE-----\n"
TLS = {"security.protocol": "SSL"}


def test_jaas_is_read() -> None:
    jaas = parse_jaas(f'{PLAIN} required\n  username="a\\"b" password=\'c;d\' plain=x;')
    assert jaas == Jaas(PLAIN, {"username": 'a"b', "password": "c;d", "plain": "x"})


@pytest.mark.parametrize(
    "text", ["", "x", f"{PLAIN} required username=a", f"{PLAIN} required =;", "a required; b required;"]
)
def test_other_jaas_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        parse_jaas(text)
    assert "username" not in str(caught.value)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_written_jaas_text_is_read_as_it_was(username: str, password: str) -> None:
    text = _jaas_text(PLAIN, {"username": username, "password": password})
    assert parse_jaas(text).options == {"username": username, "password": password}


def problems_of(java: dict[str, str]) -> list[Problem]:
    problems: list[Problem] = []
    login(java, problems)
    tls(java, problems)
    return problems


@pytest.mark.parametrize(
    ("java", "key"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.jaas.config"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{PLAIN} required username=a;"}, "sasl.jaas.config"),
        (
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": f"{PLAIN} required username=a password=b;"},
            "sasl.jaas.config",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "com.sun.security.auth.module.LdapLoginModule required;"},
            "sasl.jaas.config",
        ),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.token.endpoint.url"),
        (
            {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"},
            "sasl.oauthbearer.token.endpoint.url",
        ),
    ],
)
def test_logins_that_are_refused(java: dict[str, str], key: str) -> None:
    problems = problems_of({"security.protocol": "SASL_PLAINTEXT", **java})
    assert key in [problem.key for problem in problems]
    assert all(problem.remedy for problem in problems)


def test_no_login_is_asked_for_without_sasl() -> None:
    assert problems_of({"sasl.mechanism": "GSSAPI"}) == []


def test_oauth_from_jaas_and_from_its_own_settings() -> None:
    jaas = f'{OAUTH} required clientId="i" clientSecret="s" scope="r" extension_a="b";'
    java = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    }
    problems: list[Problem] = []
    who = login({**java, "sasl.jaas.config": jaas}, problems)
    assert problems == []
    assert who.librdkafka() == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "i",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        "sasl.oauthbearer.scope": "r",
        "sasl.oauthbearer.extensions": "a=b",
    }
    Producer({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "sasl_plaintext", **who.librdkafka()})
    own = {
        "sasl.oauthbearer.client.credentials.client.id": "i",
        "sasl.oauthbearer.client.credentials.client.secret": "s",
        "sasl.oauthbearer.scope": "r",
    }
    same = login({**java, **own}, problems)
    assert same.oauth is not None
    assert (same.oauth.client_id, same.oauth.client_secret, same.oauth.scope) == ("i", "s", "r")
    assert same.java() == {}, "Spark's Kafka source is not used with it"


def test_pem_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "store.pem"
    path.write_text(CERTIFICATE)
    problems: list[Problem] = []
    keys = tls(
        {
            **TLS,
            "ssl.truststore.location": str(path),
            "ssl.keystore.location": str(path),
            "ssl.key.password": "p",
            "ssl.endpoint.identification.algorithm": "",
        },
        problems,
    )
    assert problems == []
    assert keys.librdkafka == {
        "ssl.ca.location": str(path),
        "ssl.key.location": str(path),
        "ssl.certificate.location": str(path),
        "ssl.key.password": "p",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert keys.java() == {"ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}


def test_a_certificate_in_one_line_gets_its_lines_back() -> None:
    keys = tls({**TLS, "ssl.truststore.certificates": CERTIFICATE.strip().replace("\n", " ")}, [])
    assert keys.librdkafka["ssl.ca.pem"] == CERTIFICATE
    keys = tls({**TLS, "ssl.truststore.certificates": CERTIFICATE.replace("\n", "\\n")}, [])
    assert keys.librdkafka["ssl.ca.pem"] == CERTIFICATE


@pytest.mark.parametrize("key", ["ssl.truststore.location", "ssl.keystore.location"])
def test_stores_that_cannot_be_read_are_named(tmp_path: Path, key: str) -> None:
    path = tmp_path / "store.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed")
    password = key.replace("location", "password")
    (problem,) = problems_of({**TLS, key: str(path), password: "s3cret"})
    assert problem.key == key
    assert "cannot be opened: its password is wrong" in problem.message
    assert password in (problem.remedy or "")
    assert "s3cret" not in str(problem)
    (problem,) = problems_of({**TLS, key: str(tmp_path / "none")})
    assert "cannot be read" in problem.message
    path.write_bytes(b"hello")
    (problem,) = problems_of({**TLS, key: str(path)})
    assert "format is not known" in problem.message
