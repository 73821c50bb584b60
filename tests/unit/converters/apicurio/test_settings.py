"""Apicurio's settings, in the form of published configs: what they choose, and what the registry's client is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker.allowed_hosts import named_hosts
from headrace.converters.apicurio.avro import ApicurioAvroConverter
from headrace.converters.apicurio.connection import client_config, core_url
from headrace.converters.apicurio.ext_json import ExtJsonConverter
from headrace.converters.apicurio.protobuf import ApicurioProtobufConverter
from headrace.converters.apicurio.settings import (
    APICURIO_SETTINGS,
    RECORDS,
    TOPICS,
    ApicurioOptions,
    apicurio_options,
)
from tests.unit.converters.apicurio.fake_client import apicurio

OWN = "apicurio.registry."
URL = {f"{OWN}url": "http://apicurio:8080/apis/registry/v2"}
DEFAULTS = ApicurioOptions(
    use="contentIds",
    sizes=(4,),
    headers=None,
    register=False,
    if_exists="FIND_OR_CREATE_VERSION",
    latest=False,
    strategy="TopicIdStrategy",
    group=None,
    artifact=None,
    version=None,
    canonical=False,
    strict=True,
    period_s=30.0,
)
SERDE = "io.apicurio.registry.serde"


def told(settings: Mapping[str, str]) -> dict[str, str]:
    given = {**URL, **settings}
    return client_config(given, APICURIO_SETTINGS.parse(given))


def chosen(settings: Mapping[str, str], side: str = "value") -> ApicurioOptions:
    given = {**URL, **{OWN + name: value for name, value in settings.items()}}
    return apicurio_options(given, APICURIO_SETTINGS.parse(given), side, (*TOPICS, *RECORDS))


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://h:8080/apis/registry/v2", ("http://h:8080/apis/registry/v2", False)),
        ("http://h:8080/apis/registry/v3/", ("http://h:8080/apis/registry/v3", True)),
        ("http://h:8080/apis/ccompat/v7", ("http://h:8080/apis/registry/v3", True)),
        ("http://h:8080", ("http://h:8080/apis/registry/v3", True)),
        ("https://u:p@h/x/apis/registry/v3", ("https://u:p@h/x/apis/registry/v3", True)),
    ],
)
def test_a_url_of_any_of_its_protocols_is_taken(url: str, found: tuple[str, bool]) -> None:
    assert core_url(APICURIO_SETTINGS.parse({f"{OWN}url": url})) == found


@pytest.mark.parametrize(("version", "is_v3"), [("2", False), ("v2", False), ("3", True), ("V3.1", True)])
def test_the_version_of_the_api_may_be_named(version: str, is_v3: bool) -> None:
    given = {f"{OWN}url": "http://h", f"{OWN}url.version": version}
    assert core_url(APICURIO_SETTINGS.parse(given))[1] == is_v3


@pytest.mark.parametrize("url", ["h:8080", "http://h:8080/api", "ftp://h/apis/registry/v3", "http://u:secret@h/api"])
def test_another_url_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(ConfigError, match="apis/registry/v3") as refused:
        told({f"{OWN}url": url})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ({}, {}),
        ({"auto-register": "true", "find-latest": "true"}, {"register": True, "latest": True}),
        ({"auto-register.if-exists": "RETURN_OR_UPDATE"}, {}),
        ({"auto-register.if-exists": "UPDATE"}, {"if_exists": "CREATE_VERSION"}),
        ({"auto-register.if-exists": "FAIL"}, {"if_exists": "FAIL"}),
        ({"use-id": "globalId"}, {"use": "globalIds"}),
        ({"id-handler": f"{SERDE}.Default4ByteIdHandler"}, {}),
        ({"id-handler": f"{SERDE}.Legacy4ByteIdHandler"}, {}),
        ({"id-handler": f"{SERDE}.Legacy8ByteIdHandler"}, {"sizes": (8,)}),
        ({"id-handler": f"{SERDE}.DefaultIdHandler"}, {"sizes": (8,)}),
        ({"id-handler": f"{SERDE}.OptimisticFallbackIdHandler"}, {"sizes": (4, 8)}),
        ({"as-confluent": "true", "use-id": "contentId", "headers.enabled": "false"}, {}),
        ({"as-confluent": "false", "use-id": "globalId"}, {"use": "globalIds", "sizes": (8,)}),
        ({"artifact-resolver-strategy": f"{SERDE}.avro.strategy.RecordIdStrategy"}, {"strategy": "RecordIdStrategy"}),
        (
            {"artifact.group-id": "shop", "artifact.artifact-id": "a", "artifact.version": "3"},
            {"group": "shop", "artifact": "a", "version": "3"},
        ),
        ({"artifact.group-id": ""}, {}),
        ({"serde.validation-enabled": "false", "canonicalize": "true"}, {"strict": False, "canonical": True}),
        ({"check-period-ms": "500"}, {"period_s": 0.5}),
        ({"headers.handler": f"{SERDE}.headers.DefaultHeadersHandler", "unknown": "x"}, {}),
        ({"serde.contract-rules.enabled": "False"}, {}),
    ],
)
def test_what_published_settings_choose(settings: Mapping[str, str], changes: Mapping[str, Any]) -> None:
    assert chosen(settings) == replace(DEFAULTS, **changes)


def test_headers_have_the_names_of_their_side() -> None:
    names = {"headers.enabled": "true", "headers.key.globalId.name": "id"}
    assert chosen(names).headers == {"contentIds": "apicurio.value.contentId", "globalIds": "apicurio.value.globalId"}
    assert chosen(names, "key").headers == {"contentIds": "apicurio.key.contentId", "globalIds": "id"}


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"use-id": "schemaId"}, "contentId"),
        ({"id-handler": "com.example.MyIdHandler"}, "OptimisticFallbackIdHandler"),
        ({"as-confluent": "true"}, "use-id"),
        ({"as-confluent": "true", "use-id": "contentId", "id-handler": f"{SERDE}.Legacy8ByteIdHandler"}, "Leave one"),
        ({"auto-register.if-exists": "RETURN"}, "FIND_OR_CREATE_VERSION"),
        ({"artifact-resolver-strategy": "com.example.MyStrategy"}, "TopicIdStrategy"),
        ({"headers.handler": "com.example.Handler"}, "DefaultHeadersHandler"),
        ({"use-schema-from-headers": "true"}, "use-schema-from-headers"),
        ({"artifact.schema.location": "a.avsc"}, "Leave"),
        ({"fallback.artifact-id": "a"}, "Leave"),
        ({"serde.contract-rules.enabled": "true"}, "false"),
    ],
)
def test_what_is_not_served_is_refused_with_what_to_do(settings: Mapping[str, str], remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        chosen(settings)


@pytest.mark.parametrize(
    ("made", "settings", "named"),
    [
        (
            ExtJsonConverter,
            {"artifact_resolver_strategy": f"{SERDE}.avro.strategy.RecordIdStrategy"},
            "TopicIdStrategy",
        ),
        (ApicurioAvroConverter, {"apicurio.avro.encoding": "JSON"}, "BINARY"),
        (ApicurioProtobufConverter, {f"{OWN}serde.read-indexes": "true"}, "read-type-ref"),
        (ApicurioProtobufConverter, {f"{OWN}serde.send-type-ref": "false"}, "send-indexes"),
        (ApicurioAvroConverter, {f"{OWN}tls.trust-all": "true"}, "truststore"),
        (ApicurioAvroConverter, {f"{OWN}proxy.username": "u"}, "proxy"),
        (ApicurioAvroConverter, {f"{OWN}proxy.host": "p"}, r"apicurio\.registry\.proxy\.port|needs host and port"),
        (
            ApicurioAvroConverter,
            {f"{OWN}auth.service.token.endpoint": "http://idp"},
            r"apicurio\.registry\.auth\.client",
        ),
        (ApicurioAvroConverter, {"url": "not a url"}, r"apicurio\.registry\.url"),
        (ApicurioAvroConverter, {f"{OWN}tls.truststore.location": "/none.pem"}, r"apicurio\.registry\.tls\.truststore"),
    ],
)
def test_a_converter_refuses_what_it_does_not_serve(made: type, settings: Mapping[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        from_real_client(made, settings)


def from_real_client(made: type, settings: Mapping[str, str]) -> None:
    named = {n if n.startswith("apicurio") else OWN + n.replace("_", "-"): v for n, v in settings.items()}
    made().configure({"converter.type": "value", **URL, **named}, False)


def test_logins_proxies_retries_and_stores() -> None:
    assert told({f"{OWN}auth.username": "u", f"{OWN}auth.password": "p"})["basic.auth.user.info"] == "u:p"
    assert told({"apicurio.auth.username": "u", "apicurio.auth.password": "p"})["basic.auth.user.info"] == "u:p"
    found = told(
        {
            f"{OWN}auth.service.token.endpoint": "https://idp/token",
            f"{OWN}auth.client.id": "me",
            f"{OWN}auth.client.secret": "s",
            f"{OWN}tls.truststore.location": "/ca.pem",
            f"{OWN}tls.truststore.type": "PEM",
            f"{OWN}tls.client-key": "key",
            f"{OWN}tls.client-certificate": "chain",
            f"{OWN}tls.verify-host": "false",
            f"{OWN}proxy.host": "p",
            f"{OWN}proxy.port": "3128",
            f"{OWN}retry-count": "7",
            f"{OWN}retry-backoff-ms": "5",
            f"{OWN}request.headers.X-Tenant": "t",
        }
    )
    assert found == {
        "schema.registry.url": URL[f"{OWN}url"],
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": "https://idp/token",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "s",
        "schema.registry.ssl.truststore.location": "/ca.pem",
        "schema.registry.ssl.truststore.type": "PEM",
        "schema.registry.ssl.keystore.key": "key",
        "schema.registry.ssl.keystore.certificate.chain": "chain",
        "schema.registry.ssl.keystore.type": "PEM",
        "schema.registry.ssl.endpoint.identification.algorithm": "",
        "proxy.host": "p",
        "proxy.port": "3128",
        "max.retries": "7",
        "retries.wait.ms": "5",
        "request.header.X-Tenant": "t",
    }


def test_secrets_are_masked() -> None:
    names = ("auth.password", "auth.client.secret", "tls.keystore.password", "tls.client-key", "tls.certificates")
    secret = {OWN + name: "s" for name in names} | {"apicurio.auth.password": "s"}
    assert "s" not in APICURIO_SETTINGS.mask(secret).values()


def test_the_registrys_host_is_bounded_as_any() -> None:
    config = {"value.converter": "AvroConverter", **{f"value.converter.{name}": value for name, value in URL.items()}}
    assert ("value.converter.apicurio.registry.url", "apicurio") in list(named_hosts(config))


def test_errors_name_apicurios_setting() -> None:
    for made in (ApicurioAvroConverter, ExtJsonConverter, ApicurioProtobufConverter):
        with pytest.raises(ConfigError, match=r"apicurio\.registry\.url"):
            made().configure({"converter.type": "value"}, is_key=False)


def test_each_kind_keeps_as_many_schemas_as_its_setting_says() -> None:
    assert apicurio(ApicurioAvroConverter())[0].most_schemas == 1000
    converter = ApicurioAvroConverter()
    converter.configure({"converter.type": "value", **URL, "schemas.cache.config": "5"}, False)
    assert converter.most_schemas == 5
