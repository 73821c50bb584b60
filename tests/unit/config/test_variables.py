"""Variables in values: found by Apache's expression, replaced once, put back into what connectors copied."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from headrace.config.problems import ConfigError, Problem
from headrace.config.providers import ConfigProvider, EnvVarConfigProvider, Provided
from headrace.config.settings import Setting, Settings, Type
from headrace.config.variables import UnresolvedError, Variables, variables_in
from headrace.config.worker.config import WorkerConfig

WORKER = {
    "bootstrap.servers": "a:1",
    "key.converter": "K",
    "value.converter": "V",
    "offset.storage.file.filename": "offsets",
}


class Vault(ConfigProvider):
    """Knows what it was told, and counts how it is asked."""

    settings = Settings(Setting("door", Type.STRING), Setting("code", Type.PASSWORD, None))
    version = "1"

    def __init__(
        self, known: Mapping[tuple[str, str], str] | None = None, ttls: Mapping[str, int] | None = None
    ) -> None:
        self.known, self.ttls = dict(known or {}), ttls or {}
        self.asked: list[tuple[str, set[str]]] = []
        self.raises: Exception | None = None
        self.params: Mapping[str, Any] = {}

    def configure(self, params: Mapping[str, Any]) -> None:
        self.params = params
        if params["door"] == "shut":
            raise ConfigError(Problem("door", "shut", "It is shut.", "Open it."))

    def get(self, path: str, keys: Collection[str]) -> Provided:
        self.asked.append((path, set(keys)))
        if self.raises is not None:
            raise self.raises
        found = {key: self.known[path, key] for key in keys if (path, key) in self.known}
        return Provided(found, self.ttls.get(path))


def variables(known: Mapping[tuple[str, str], str], **more: Any) -> Variables:
    return Variables({"v": Vault(known)}, **more)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("${v:k}", [("v", "", "k")]),
        ("${v:p:k}", [("v", "p", "k")]),
        ("${v::k}", [("v", "", "k")]),
        ("${v:/a/b.properties:k:with:colons}", [("v", "/a/b.properties", "k:with:colons")]),
        ("x${v:k}y${w:p:k}z", [("v", "", "k"), ("w", "p", "k")]),
        ("${topic} $v:k} ${v} {v:k}", []),
        ("${a${v:k}", [("a${v", "", "k")]),
        ("${:k}${v:}", [("", "", "k"), ("v", "", "")]),
        ("${v:a\nb}", [("v", "", "a\nb")]),
    ],
)
def test_variables_are_found_as_apache_finds_them(value: str, found: list[tuple[str, str, str]]) -> None:
    assert [variable[1:] for variable in variables_in(value)] == found


def test_values_take_the_places_of_variables_once() -> None:
    some = variables({("", "k"): "1", ("p", "k"): "${v:k}", ("", "dollar"): r"\1$0"})
    config = {"a": "x${v:k}y${v:p:k}", "b": "plain", "c": "${v:none}${other:k}", "d": "${v:dollar}"}
    assert some.resolve(config) == {
        "a": "x1y${v:k}",
        "b": "plain",
        "c": "${v:none}${other:k}",
        "d": r"\1$0",
    }


def test_a_provider_is_asked_once_per_path() -> None:
    vault = Vault({("p", "a"): "1", ("p", "b"): "2", ("q", "a"): "3"}, {"p": 500, "q": 200})
    found = Variables({"v": vault}).look_up({"x": "${v:p:a}${v:p:b}", "y": "${v:p:a}", "z": "${v:q:a}"})
    assert vault.asked == [("p", {"a", "b"}), ("q", {"a"})]
    assert found.ttl_ms == 200
    assert Variables({"v": vault}).look_up({"z": "z"}).ttl_ms is None


def test_what_cannot_be_resolved_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    some = variables({})
    for _ in range(3):
        some.resolve({"a": "${v:none}", "b": "${other:k}", "c": "${other:l}"})
    assert [record.getMessage().split(" is ")[0] for record in caplog.records] == ["${v:none}", "${other:k}"]


def test_a_provider_s_error_names_the_setting() -> None:
    vault = Vault()
    vault.raises = OSError("sealed")
    with pytest.raises(UnresolvedError) as caught:
        Variables({"v": vault}).resolve({"password": "${v:p:k}", "x": "y"})
    (problem,) = caught.value.problems
    assert (problem.key, problem.message) == ("password", "OSError: sealed")
    vault.raises = ConfigError(Problem("p", None, "Apache's words", "Mend it."))
    with pytest.raises(UnresolvedError, match=r"url \(= '\$\{v:p:k\}'\): Apache's words. Mend it."):
        Variables({"v": vault}).resolve({"url": "${v:p:k}"})


def test_what_providers_give_is_told_before_it_is_used() -> None:
    heard: list[str] = []
    variables({("", "k"): "hunter2"}, heard=heard.extend).look_up({"a": "${v:k}", "b": "plain"})
    assert heard == ["hunter2"]


def test_the_last_values_are_known_without_asking() -> None:
    vault = Vault({("", "k"): "old"})
    some = Variables({"v": vault})
    assert some.last({"a": "${v:k}"}) == {"a": "${v:k}"}
    some.resolve({"a": "${v:k}"})
    vault.known, vault.raises = {}, OSError()
    assert some.last({"a": "<${v:k}>"}) == {"a": "<old>"}


URL, PASSWORD, TABLES = "jdbc:x://u:${v:pw}@h", "${v:pw}", "${v:tables}"
RAW = {"url": URL, "password": PASSWORD, "tables": TABLES, "n": "${v:n}", "file": "${v:file}", "plain": "hunter2 here"}


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        ("password", "hunter2", PASSWORD),
        ("url", "jdbc:x://u:hunter2@h", URL),
        ("url", "jdbc:x://u:hunter2@h?task=0", URL + "?task=0"),
        ("db.password", "hunter2", PASSWORD),
        ("n", "1", "${v:n}"),
        ("other.n", "1", "1"),
        ("tables", "orders,items", TABLES),
        ("tables", "orders", "orders"),
        ("file", "-----KEY-----\nabcdefgh\n", "${v:file}"),
        ("file", "abcdefgh", "${v:file}"),
        ("fresh", "nothing", "nothing"),
    ],
)
def test_what_a_connector_copied_is_stored_as_variable(key: str, value: str, stored: str) -> None:
    some = variables(
        {
            ("", "pw"): "hunter2",
            ("", "tables"): "orders,items",
            ("", "n"): "1",
            ("", "file"): "-----KEY-----\nabcdefgh\n",
        }
    )
    some.resolve(RAW)
    assert some.unresolved(RAW, {key: value}) == {key: stored}


def test_a_secret_from_before_its_change_is_no_more_stored_than_a_new_one() -> None:
    vault = Vault({("", "pw"): "before"})
    some = Variables({"v": vault})
    some.resolve({"password": PASSWORD})
    vault.known = {("", "pw"): "hunter2"}
    some.resolve({"password": PASSWORD})
    made = {"password": "before", "url": "x:before", "new": "hunter2"}
    assert some.unresolved({"password": PASSWORD}, made) == {
        "password": PASSWORD,
        "url": f"x:{PASSWORD}",
        "new": PASSWORD,
    }


def test_a_connector_without_variables_keeps_its_task_configs() -> None:
    some = variables({("", "pw"): "hunter2"})
    some.resolve({"password": PASSWORD})
    assert some.unresolved({"password": "hunter2"}, {"password": "hunter2"}) == {"password": "hunter2"}


def test_a_worker_declares_its_providers() -> None:
    props = {
        "config.providers": "v, env",
        "config.providers.v.class": "Vault",
        "config.providers.v.param.door": "front",
        "config.providers.v.param.more": "x",
        "config.providers.env.class": " Env ",
    }
    classes = {"Vault": Vault, "Env": EnvVarConfigProvider}
    made = Variables.of(props, classes.__getitem__)
    assert set(made.providers) == {"v", "env"}
    vault = made.providers["v"]
    assert isinstance(vault, Vault)
    assert vault.params == {"door": "front", "more": "x", "code": None}
    assert Variables.of({}, classes.__getitem__).providers == {}


def test_all_that_is_wrong_with_providers_is_told() -> None:
    def find(name: str) -> type[Any]:
        if name != "Vault":
            raise ConfigError(Problem("config_provider", name, f"Class {name} could not be found."))
        return Vault

    props = {
        "config.providers": "a,b,c,d",
        "config.providers.b.class": "No",
        "config.providers.c.class": "Vault",
        "config.providers.d.class": "Vault",
        "config.providers.d.param.door": "shut",
        "config.providers.d.param.code": "4711x",
    }
    with pytest.raises(ConfigError) as caught:
        Variables.of(props, find)
    assert {problem.key: problem.message for problem in caught.value.problems} == {
        "config.providers.a.class": "The provider has no class.",
        "config.providers.b.class": "Class No could not be found.",
        "config.providers.c.param.door": 'Missing required configuration "door" which has no default value.',
        "config.providers.d.param.door": "It is shut.",
    }
    assert "4711x" not in str(caught.value)


def test_a_worker_s_own_properties_may_have_variables() -> None:
    some = variables({("", "servers"): "b:2", ("", "pw"): "hunter2"})
    props = {**WORKER, "bootstrap.servers": "${v:servers}", "producer.ssl.key.password": "${v:pw}"}
    config = WorkerConfig.standalone(props, some)
    assert config["bootstrap.servers"] == ["b:2"]
    assert config.with_prefix("producer.") == {"ssl.key.password": "hunter2"}
    assert config.shown()["producer.ssl.key.password"] == "[hidden]"
    assert config.variables is some
    assert "hunter2" not in repr(config)
