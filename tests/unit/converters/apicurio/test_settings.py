"""Apicurio's settings, in the form of published configs, and what the registry's client is told."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker.allowed_hosts import named_hosts
from headrace.converters.apicurio.avro import ApicurioAvroConverter
from headrace.converters.apicurio.settings import APICURIO_SETTINGS, as_confluent

URL = {"apicurio.registry.url": "http://apicurio:8080/apis/registry/v2"}
DEBEZIUM = {**URL, "apicurio.registry.auto-register": "true", "apicurio.registry.find-latest": "true"}
"""As Debezium's documentation sets it."""


def told(settings: Mapping[str, str]) -> dict[str, str]:
    given = {**URL, **settings}
    return {name: value for name, value in as_confluent(given, "value").items() if name not in given}


@pytest.mark.parametrize(
    "url",
    [
        "http://h:8080/apis/registry/v2",
        "http://h:8080/apis/registry/v3/",
        "http://h:8080/apis/ccompat/v7",
        "http://h:8080",
    ],
)
def test_a_url_of_any_of_its_protocols_is_taken(url: str) -> None:
    assert told({"apicurio.registry.url": url})["schema.registry.url"] == "http://h:8080/apis/ccompat/v7"


def test_the_path_of_a_proxy_and_a_login_stay_in_the_url() -> None:
    found = told({"apicurio.registry.url": "https://u:p@h/x/apis/registry/v3"})
    assert found["schema.registry.url"] == "https://u:p@h/x/apis/ccompat/v7"


@pytest.mark.parametrize("url", ["h:8080", "http://h:8080/api", "ftp://h/apis/registry/v3", "http://u:secret@h/api"])
def test_another_url_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(ConfigError, match="apis/registry/v3") as refused:
        told({"apicurio.registry.url": url})
    assert "secret" not in str(refused.value)


def test_published_settings_are_confluents() -> None:
    found = told(DEBEZIUM)
    assert found["auto.register.schemas"] == "true"
    assert found["use.latest.version"] == "true"
    assert found["value.subject.name.strategy"] == "TopicNameStrategy"
    assert told({})["auto.register.schemas"] == "false"


def test_logins_groups_and_stores() -> None:
    own = "apicurio.registry."
    assert told({f"{own}auth.username": "u", f"{own}auth.password": "p"})["basic.auth.user.info"] == "u:p"
    found = told(
        {
            f"{own}auth.service.token.endpoint": "https://idp/token",
            f"{own}auth.client.id": "me",
            f"{own}auth.client.secret": "s",
            f"{own}artifact.group-id": "shop",
            f"{own}tls.truststore.location": "/ca.pem",
            f"{own}tls.truststore.type": "PEM",
        }
    )
    assert found["bearer.auth.credentials.source"] == "OAUTHBEARER"
    assert found["bearer.auth.issuer.endpoint.url"] == "https://idp/token"
    assert (found["bearer.auth.client.id"], found["bearer.auth.client.secret"]) == ("me", "s")
    assert found["request.header.X-Registry-GroupId"] == "shop"
    assert found["schema.registry.ssl.truststore.location"] == "/ca.pem"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("use-id", "globalId"),
        ("id-handler", "io.apicurio.registry.serde.Legacy8ByteIdHandler"),
        ("headers.enabled", "true"),
        ("as-confluent", "false"),
        ("auto-register.if-exists", "FAIL"),
        ("artifact-resolver-strategy", "io.apicurio.registry.serde.avro.strategy.RecordIdStrategy"),
        ("artifact.artifact-id", "a"),
        ("artifact.version", "3"),
    ],
)
def test_what_is_not_served_is_refused_with_what_to_do(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"apicurio.registry.{name}"):
        told({f"apicurio.registry.{name}": value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id-handler", "io.apicurio.registry.serde.Default4ByteIdHandler"),
        ("artifact-resolver-strategy", "io.apicurio.registry.serde.avro.strategy.QualifiedRecordIdStrategy"),
        ("as-confluent", "true"),
        ("headers.enabled", "False"),
        ("unknown", "x"),
    ],
)
def test_what_is_served_or_unknown_passes(name: str, value: str) -> None:
    told({f"apicurio.registry.{name}": value})


def test_secrets_are_masked() -> None:
    secret = {
        f"apicurio.registry.{name}": "s" for name in ("auth.password", "auth.client.secret", "tls.keystore.password")
    }
    assert "s" not in APICURIO_SETTINGS.mask(secret).values()


def test_the_registrys_host_is_bounded_as_any() -> None:
    config = {"value.converter": "AvroConverter", **{f"value.converter.{name}": value for name, value in URL.items()}}
    assert ("value.converter.apicurio.registry.url", "apicurio") in list(named_hosts(config))


def test_errors_name_apicurios_setting() -> None:
    converter = ApicurioAvroConverter()
    with pytest.raises(ConfigError, match=r"apicurio\.registry\.url"):
        converter.configure({"converter.type": "value"}, is_key=False)
