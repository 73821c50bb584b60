"""`CONNECT_*` variables as properties, as Kafka Connect's images read them."""

from __future__ import annotations

import pytest

from headrace.config.worker.environment import misread, own_url, properties_from, property_name
from headrace.config.worker.settings import DISTRIBUTED


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("BOOTSTRAP_SERVERS", "bootstrap.servers"),
        ("REST_ADVERTISED_HOST_NAME", "rest.advertised.host.name"),
        ("METRICS_CONTEXT_A__B", "metrics.context.a_b"),
        ("METRICS_CONTEXT_A___B", "metrics.context.a-b"),
        ("A____B", "a-.b"),
        ("VALUE_CONVERTER_SCHEMA_REGISTRY_URL", "value.converter.schema.registry.url"),
    ],
)
def test_underscores(variable: str, name: str) -> None:
    assert property_name(variable) == name


def test_only_what_is_meant_for_the_worker_becomes_a_property() -> None:
    environment = {
        "CONNECT_GROUP_ID": "g",
        "CONNECT_LOG4J_ROOT_LOGLEVEL": "WARN",
        "CONNECT_LOG4J_LOGGERS": "a=DEBUG",
        "CONNECT_CUB_KAFKA_TIMEOUT": "40",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "PATH": "/bin",
    }
    assert properties_from(environment) == {"group.id": "g"}


def test_the_port_is_a_listener_unless_listeners_are_named() -> None:
    assert properties_from({"CONNECT_REST_PORT": "28083"}) == {"listeners": "http://:28083"}
    both = {"CONNECT_REST_PORT": "28083", "CONNECT_LISTENERS": "http://:1"}
    assert properties_from(both) == {"listeners": "http://:1"}


def test_a_name_by_confluent_s_documentation_is_noticed() -> None:
    known = {"a-b.c", "group.id"}
    assert misread({"a_b.c": "1", "group.id": "g", "x_y": "2"}, known) == {"a_b.c": "a-b.c"}
    assert misread({"group.id": "g"}, DISTRIBUTED) == {}


@pytest.mark.parametrize(
    ("listeners", "url"),
    [
        (None, "http://127.0.0.1:8083"),
        ("http://:9000", "http://127.0.0.1:9000"),
        ("http://0.0.0.0:9000, http://other:1", "http://127.0.0.1:9000"),
        ("http://[::]:9000", "http://127.0.0.1:9000"),
        ("https://:8443,http://127.0.0.1:80", "http://127.0.0.1:80"),
        ("https://:8443", "https://127.0.0.1:8443"),
        ("HTTP://10.1.2.3:80", "http://10.1.2.3:80"),
        ("http://[fe80::1]:80", "http://[fe80::1]:80"),
    ],
)
def test_where_the_worker_answers_on_its_own_machine(listeners: str | None, url: str) -> None:
    assert own_url({} if listeners is None else {"listeners": listeners}) == url
