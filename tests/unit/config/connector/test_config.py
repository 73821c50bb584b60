from __future__ import annotations

from headrace.config.connector.config import converter_config

WORKER = {
    "key.converter": "JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}


def test_a_converter_of_the_worker_has_only_the_workers_settings() -> None:
    chosen = converter_config("value", {"value.converter.decimal.format": "NUMERIC"}, WORKER)
    assert chosen == ("JsonConverter", {"schemas.enable": "false", "converter.type": "value"})


def test_a_converter_of_the_connector_has_only_the_connectors_settings() -> None:
    own = {"value.converter": " JsonConverter ", "value.converter.decimal.format": "NUMERIC"}
    chosen = converter_config("value", {**own, "value.converter.plugin.version": "4.3.1"}, WORKER)
    assert chosen == ("JsonConverter", {"decimal.format": "NUMERIC", "converter.type": "value"})


def test_headers_have_a_default() -> None:
    chosen = converter_config("header", {}, {})
    assert chosen == ("org.apache.kafka.connect.storage.SimpleHeaderConverter", {"converter.type": "header"})
