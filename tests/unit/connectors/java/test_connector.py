"""The answers of a Java source connector on transactions, as validation asks it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import pytest

from headrace.config.connector.validator import ConnectorValidator
from headrace.config.settings import Settings
from headrace.config.worker.config import WorkerConfig
from headrace.connectors.java import connector as module
from headrace.connectors.java.connector import JavaSourceConnector
from headrace.connectors.java.errors import JavaError
from headrace.plugins.interop.discovery import PluginEntry, Plugins

DISTRIBUTED = WorkerConfig.distributed(
    {
        "bootstrap.servers": "localhost:9092",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "group.id": "g",
        **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
    }
)


class Mine(JavaSourceConnector):
    settings = Settings()
    version = "1"
    plugin: ClassVar[Mapping[str, Any]] = {"class": "org.x.Mine"}
    task = object  # type: ignore[assignment]


class Host:
    """Says of transactions what a config asks for."""

    def call(self, name: str, limit_s: float, /, **given: Any) -> Any:
        said = given["config"].get(name)
        if said == "fails":
            raise JavaError("java.lang.IllegalStateException: no")
        return {"yes": True, "no": False, None: None}[said] if name != "plugin.validate" else []


class Here(PluginEntry):
    def load(self) -> type[Any]:
        return Mine


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "running_host", Host)


def refusal(exactly_once: bool, config: Mapping[str, str]) -> str:
    mine = Here("org.x.Mine", "source", EntryPoint("m", "m:m", "g"))
    lookup = Plugins([*Plugins.shipped().of_kind("converter"), mine])
    found = ConnectorValidator(lookup, DISTRIBUTED, exactly_once)({"name": "c", "connector.class": "Mine", **config})
    return " ".join(problem.message for problem in found.problems)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"plugin.exactly_once": "yes"}, ""),
        ({"plugin.exactly_once": "no"}, "The connector does not support exactly-once semantics with the provided"),
        ({}, "The connector does not implement the API required for preflight validation of exactly-once source"),
        ({"plugin.exactly_once": "fails"}, "An unexpected error occurred during validation: java.lang.IllegalState"),
    ],
)
def test_a_plugin_says_whether_it_delivers_exactly_once(said: dict[str, str], text: str) -> None:
    found = refusal(True, {"exactly.once.support": "required", **said})
    assert found.startswith(text)
    assert bool(found) == bool(text)


def test_a_worker_without_transactions_asks_no_plugin() -> None:
    found = refusal(False, {"exactly.once.support": "required", "plugin.exactly_once": "yes"})
    assert found == "This worker does not have exactly-once source support enabled."


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("yes", ""),
        ("no", "The connector does not support connector-defined transaction boundaries with the given configuration."),
        ("fails", "An unexpected error occurred during validation: java.lang.IllegalStateException: no"),
    ],
)
@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_plugin_says_whether_it_defines_transactions(exactly_once: bool, said: str, text: str) -> None:
    found = refusal(exactly_once, {"transaction.boundary": "connector", "plugin.defines_transactions": said})
    assert found.startswith(text)
    assert bool(found) == bool(text)
