"""A connector's config with its variables, from validation to its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.settings import Setting, Settings, Type
from headrace.config.variables import NO_VARIABLES, UnresolvedError
from headrace.config.worker.allowed_hosts import ALLOWED_HOSTS
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.interop import discovery
from headrace.worker.errors import BadRequest, ConnectError, NotFound
from headrace.worker.herder.plugins import InstalledPlugins, worker_config
from headrace.worker.hosting.definition import ConnectorDefinition, validated
from headrace.worker.logging.redaction import WORKER, Redaction, hide_everywhere, running
from headrace.worker.model import TargetState

SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


class Login:
    """A connector with a declared secret that has no secret's name."""

    settings = Settings(Setting("pin", Type.PASSWORD, None))
    version = "1"
    task_class = "org.example.LoginTask"
    default_tasks_max = 1


@pytest.fixture
def secrets(tmp_path: Path) -> Callable[..., str]:
    """Writes the secrets' file; the variable of a key in it."""
    file = tmp_path / "secrets.properties"

    def write(**known: str) -> str:
        file.write_text("".join(f"{key}={value}\n" for key, value in known.items()))
        return f"${{file:{file}:%s}}"

    return write


@pytest.fixture
def worker() -> WorkerConfig:
    props = {
        "bootstrap.servers": "127.0.0.1:1",
        "offset.storage.file.filename": "unused",
        "key.converter": "JsonConverter",
        "value.converter": "JsonConverter",
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
    }
    return worker_config(props, WorkerConfig.standalone)


@pytest.fixture
def plugins(worker: WorkerConfig) -> InstalledPlugins:
    return InstalledPlugins(discovery.Plugins.discover(), worker)


def configured(worker: WorkerConfig, config: Mapping[str, str | None], kind: Any = "source") -> ConnectorDefinition:
    return ConnectorDefinition(config, kind, Login, TargetState.STARTED, variables=worker.variables)  # type: ignore[arg-type]


def test_what_is_stored_stays_raw_and_what_runs_is_resolved_each_time(
    worker: WorkerConfig, secrets: Callable[..., str]
) -> None:
    variable = secrets(pw="hunter2") % "pw"
    made = configured(worker, {"name": "c", "url": f"u:{variable}@h", "gone": None})
    assert made.plain == {"name": "c", "url": "u:hunter2@h"}
    (stored,) = made.completed([{"url": "u:hunter2@h", "password": "hunter2", "n": "0"}])
    assert stored == {"url": f"u:{variable}@h", "password": variable, "n": "0", "task.class": "org.example.LoginTask"}
    secrets(pw="changed")
    assert made.plain["url"] == "u:changed@h"
    made = configured(worker, made.config)
    assert ConnectorDefinition(**{**vars(made), "task_configs": (stored,)}).task_config(0)["password"] == "changed"
    secrets()
    assert made.plain["url"] == f"u:{variable}@h"


def test_a_config_s_own_task_class_counts_for_java_connectors_only(
    worker: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = configured(worker, {"name": "c", "task.class": "org.example.Other"})
    assert made.completed([made.plain])[0]["task.class"] == "org.example.LoginTask"
    monkeypatch.setattr(Login, "task_class", "")
    assert made.completed([made.plain])[0]["task.class"] == "org.example.Other"


def test_secrets_are_those_declared_and_those_that_variables_stood_for(
    worker: WorkerConfig, secrets: Callable[..., str]
) -> None:
    variable = secrets(pin="4711", pw="hunter2")
    made = configured(worker, {"name": "c", "pin": variable % "pin", "my.password": "pl41n", "x": "http://u:in-url@h"})
    assert made.plain["pin"] == "4711"
    told = made.redaction().hide("pin=4711, with pl41n, as in-url")
    assert told == "pin=[hidden], with [hidden], as [hidden]"


def test_topics_of_a_sink_s_tasks_stay_raw(worker: WorkerConfig, secrets: Callable[..., str]) -> None:
    variable = secrets(t="orders") % "t"
    (stored,) = configured(worker, {"name": "c", "topics": variable}, "sink").completed([{}])
    assert stored["topics"] == variable


def test_the_number_of_tasks_may_be_a_variable(worker: WorkerConfig, secrets: Callable[..., str]) -> None:
    variable = secrets(n="3", no="false")
    made = configured(worker, {"name": "c", "tasks.max": variable % "n"})
    made.check_count(made.max_tasks)
    assert made.max_tasks == 3
    with pytest.raises(ConnectError, match="greater than 3"):
        made.check_count(4)
    configured(worker, {**made.config, "tasks.max.enforce": variable % "no"}).check_count(4)


def test_no_connector_has_more_tasks_than_its_worker_allows(worker: WorkerConfig) -> None:
    """Not even if the config is already in the config topic: twenty million tasks took 5 GB."""

    def of(**config: str) -> ConnectorDefinition:
        made = configured(worker, {"name": "c", **{key.replace("_", "."): value for key, value in config.items()}})
        return replace(made, worker={"tasks.max.limit": 3})

    assert of(tasks_max="3").ready["tasks.max"] == "3"
    wrong = of(tasks_max="20000000")
    for ask in (lambda: wrong.ready, lambda: wrong.max_tasks, lambda: wrong.check_count(1)):
        with pytest.raises(ConnectError, match=r"tasks\.max is 20000000, and tasks\.max\.limit of this worker 3"):
            ask()
    many = of(tasks_max="2", tasks_max_enforce="false")
    many.check_count(3)
    with pytest.raises(ConnectError, match=r"generated 4 tasks, and this worker allows 3 \(tasks.max.limit\)"):
        many.check_count(4)


def test_a_task_whose_config_the_worker_does_not_have_says_why(worker: WorkerConfig) -> None:
    made = replace(configured(worker, {"name": "c"}), task_configs=({},), worker={"tasks.max.limit": 1})
    assert made.task_config(0) == {}
    with pytest.raises(ConnectError, match=r"no config of task c-1: .* more tasks than its tasks\.max\.limit \(1\)"):
        made.task_config(1)


def test_a_file_that_is_away_is_told_when_it_is_needed(worker: WorkerConfig) -> None:
    made = configured(worker, {"name": "c", "password": "${file:/no/such:pw}"})
    assert made.redaction().hide("password=${file:/no/such:pw}") == "password=${file:/no/such:pw}"
    with pytest.raises(UnresolvedError, match="Could not read properties from file /no/such"):
        _ = made.plain


def test_a_start_needs_hosts_that_the_worker_allows(worker: WorkerConfig, secrets: Callable[..., str]) -> None:
    variable = secrets(host="127.0.0.1")
    made = configured(worker, {"name": "c", "some.url": f"http://{variable % 'host'}:1/x"})
    assert made.ready["some.url"] == "http://127.0.0.1:1/x"
    made = replace(made, worker={ALLOWED_HOSTS: ["10.0.0.0/8"]})
    assert made.plain, "not started yet"
    with pytest.raises(ConfigError, match=r"some\.url.*connector\.allowed\.hosts \(10\.0\.0\.0/8\)"):
        assert made.ready


def test_a_config_is_judged_by_what_its_variables_stand_for(
    plugins: InstalledPlugins, secrets: Callable[..., str]
) -> None:
    variable = secrets(cls=SINK, topic="orders", n="2")
    config = {
        "name": "c",
        "connector.class": variable % "cls",
        "topics": variable % "topic",
        "tasks.max": variable % "n",
    }
    made = validated(plugins, config)
    assert (made.kind, made.config, made.max_tasks) == ("sink", config, 2)
    assert plugins.kind(variable % "cls") == "sink"


@pytest.fixture
def jdbc(tmp_path: Path) -> dict[str, str]:
    """A sink with many settings."""
    url = f"jdbc:sqlite:{tmp_path}/rows.db"
    return {"name": "c", "connector.class": "JdbcSinkConnector", "topics": "t", "connection.url": url}


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ({"insert.moed": "upsert"}, "insert.moed: did you mean insert.mode?"),
        ({"zebra": "1"}, "zebra: nothing has a setting of this name"),
        ({"key.converter.schemas.enable": "false"}, "it has an effect only where the connector names key.converter"),
        ({"transforms.a.type": "Cast$Value"}, "transforms.a.type: transforms does not name a"),
        ({"connection.sslmode": "require", "consumer.override.max.poll.records": "5"}, None),
        ({"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}, None),
        ({"errors.retry.topic.name": "r", "errors.retry.timeout": "-1"}, None),
        ({"task.restart.backoff.ms": "5", "task.restart.enabled": "false"}, None),
        ({"value.converter": "StringConverter", "value.converter.schemas.enable": "false"}, None),
        ({"confluent.topic.bootstrap.servers": "kafka:9092", "confluent.license": ""}, None),
    ],
)
def test_a_setting_that_nothing_reads_is_warned_of(
    plugins: InstalledPlugins,
    jdbc: dict[str, str],
    given: dict[str, str],
    warned: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    validated(plugins, {**jdbc, **given})
    said = [text for text in caplog.messages if "nothing reads" in text]
    assert len(said) == (warned is not None)
    assert warned is None or warned in said[0]


def test_a_wrong_class_and_an_undefined_predicate_are_refused_with_what_there_is(
    plugins: InstalledPlugins, jdbc: dict[str, str]
) -> None:
    chain = {"transforms": "a", "transforms.a.type": "InsertFeild$Value"}
    with pytest.raises(
        BadRequest, match=r"found\. Did you mean org\.apache\S+InsertField\$Value\? There are: InsertField\$Value,"
    ):
        validated(plugins, {**jdbc, **chain})
    with pytest.raises(BadRequest, match=r"found\. Did you mean org\.apache\.kafka\.connect\.json\.JsonConverter\?"):
        validated(plugins, {**jdbc, "value.converter": "JsonConvertor"})
    chain = {"transforms": "a", "transforms.a.type": "Flatten$Value", "transforms.a.predicate": "isTombston"}
    predicate = {"predicates": "isTombstone", "predicates.isTombstone.type": "RecordIsTombstone"}
    with pytest.raises(BadRequest, match=r"no such alias\. Did you mean isTombstone\? There are: isTombstone\."):
        validated(plugins, {**jdbc, **chain, **predicate})
    validated(plugins, {**jdbc, **chain, **predicate, "transforms.a.predicate": "isTombstone"})


def test_an_answer_shows_variables_and_not_what_they_stand_for(
    plugins: InstalledPlugins, secrets: Callable[..., str]
) -> None:
    variable = secrets(n="sesame-open", topic="hunter2-topic")
    config = {"name": "c", "connector.class": SINK, "topics": variable % "topic", "tasks.max": variable % "n"}
    infos = plugins.validate({**config, "nothing": None}).infos()
    values = {info["value"]["name"]: info["value"] for info in infos["configs"]}
    assert values["topics"]["value"] == config["topics"]
    assert values["tasks.max"]["value"] == config["tasks.max"]
    assert values["tasks.max"]["errors"][0] == (
        "Invalid value [hidden] for configuration tasks.max: Not a number of type INT"
    )
    with pytest.raises(BadRequest) as caught:
        validated(plugins, config)
    assert "sesame" not in str(caught.value) + str(infos)
    assert "hunter2" not in str(infos)


def test_a_provider_that_fails_is_a_500(plugins: InstalledPlugins) -> None:
    config = {"name": "c", "connector.class": SINK, "topics": "${file:/no/such:t}"}
    with pytest.raises(ConnectError, match=r"^Could not read properties from file /no/such$") as caught:
        plugins.validate(config)
    assert caught.value.status == 500
    assert plugins.kind("${file:/no/such:c}") is None


def test_providers_are_no_plugins_of_connectors(plugins: InstalledPlugins) -> None:
    assert not [info for info in plugins.infos(connectors_only=False) if "provider" in info.class_name.lower()]
    with pytest.raises(BadRequest, match=r"^Invalid plugin class EnvVarConfigProvider. Valid types are sink, source, "):
        plugins.settings("EnvVarConfigProvider")
    with pytest.raises(NotFound):
        plugins.settings("Env")


@pytest.mark.parametrize("name", [PROVIDER, "FileConfigProvider", "File"])
def test_providers_answer_to_java_s_names(name: str) -> None:
    props = {"config.providers": "x", "config.providers.x.class": name}
    seen: list[str] = []

    def parse(props: Mapping[str, str], variables: Any) -> Any:
        seen.extend(variables.providers)
        return WorkerConfig.standalone(
            {
                "bootstrap.servers": "a:1",
                "offset.storage.file.filename": "o",
                "key.converter": "K",
                "value.converter": "V",
            }
        )

    assert worker_config(props, parse).variables is NO_VARIABLES
    assert seen == ["x"]


def test_names_that_a_variable_gave_are_shown_nowhere(plugins: InstalledPlugins, secrets: Callable[..., str]) -> None:
    variable = secrets(names="sesame-open, connect")
    config = {"name": "c", "connector.class": SINK, "topics": "t", "transforms": variable % "names"}
    infos = plugins.validate({**config, "predicates": variable % "names"}).infos()
    assert "Transforms: [hidden]" in infos["groups"]
    assert "sesame" not in str(infos)
    assert "transforms.connect." not in str(infos)


def test_what_the_caller_wrote_is_never_filtered(plugins: InstalledPlugins) -> None:
    WORKER.learn(["gu3ss-me-now"])
    running(Redaction(["hunter2-pw"]))
    for guess in ("gu3ss-me-now", "hunter2-pw"):
        with pytest.raises(BadRequest, match=guess):
            validated(plugins, {"name": "c", "connector.class": guess, "database.password": guess})
    with pytest.raises(BadRequest) as refused:
        validated(plugins, {"name": "c", "connector.class": "x.Y", "database.password": "Connect"})
    assert "Connector" in str(refused.value)
    assert "[hidden]" not in str(refused.value)
    assert hide_everywhere("gives connectors") == "gives connectors"
