"""Transforms that a task applies in Java, and those left for Spark."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.config.connector.error_handling import ErrorHandling
from headrace.config.problems import ConfigError
from headrace.plugins.interop.discovery import Plugins
from headrace.worker.pipeline.split_transforms import SplitTransforms
from tests import made_jars

WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.x.MyConverter",
    "value.converter.open": "(",
}
APACHES = "org.apache.kafka.connect.transforms"
CHAIN = {
    "transforms": "cast,mine,mask",
    "transforms.cast.type": f"{APACHES}.Cast$Value",
    "transforms.cast.spec": "int8",
    "transforms.mine.type": "Mine",
    "transforms.mine.plugin.version": "1",
    "transforms.mine.deep": "x",
    "transforms.mine.predicate": "p",
    "transforms.mine.negate": "TRUE",
    "transforms.mask.type": f"{APACHES}.MaskField$Value",
    "predicates": "p",
    "predicates.p.type": "TopicNameMatches",
    "predicates.p.pattern": "a.*",
}


@pytest.fixture
def plugins(tmp_path: Path) -> Plugins:
    """A source, a transform and a converter from jars, the last two in two versions, beside all of ours."""
    for of_type, name, parents, version in (
        (made_jars.SOURCE, "org.x.MySourceConnector", (made_jars.SOURCE,), "1"),
        (made_jars.TRANSFORMATION, "org.x.Mine", ("java.lang.Object", [made_jars.TRANSFORMATION]), "1"),
        (made_jars.TRANSFORMATION, "org.x.Mine", ("java.lang.Object", [made_jars.TRANSFORMATION]), "2"),
        (made_jars.CONVERTER, "org.x.MyConverter", ("java.lang.Object", [made_jars.CONVERTER]), "1"),
        (made_jars.CONVERTER, "org.x.MyConverter", ("java.lang.Object", [made_jars.CONVERTER]), "2"),
    ):
        made_jars.jar(tmp_path / f"{name}-{version}.jar", {name: made_jars.class_file(name, *parents)}, {of_type: name})
    return Plugins.discover([str(tmp_path)])


def split(plugins: Plugins, connector_class: str, worker: dict[str, str], **config: str) -> SplitTransforms:
    whole = {**CHAIN, "connector.class": connector_class, "name": "c", **config}
    plugin = plugins.find("source", connector_class)
    return SplitTransforms.of("c-0", whole, worker, plugin, plugins, ErrorHandling.of("source", whole))


def test_a_chain_is_told_with_what_its_plugins_are_configured_with(
    plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    found = split(plugins, "MySource", {**WORKER, "value.converter": WORKER["key.converter"]})
    cast, mine = found.java_stage.steps
    assert cast.transform.config == {"type": f"{APACHES}.Cast$Value", "spec": "int8"}
    assert cast.transform.plugin.jars == ()
    assert (mine.transform.plugin.class_name, mine.transform.plugin.version) == ("org.x.Mine", "1")
    assert mine.negate
    assert mine.transform.config == {"type": "Mine", "deep": "x"}
    assert mine.predicate is not None
    assert mine.predicate.plugin.class_name == f"{APACHES}.predicates.TopicNameMatches"
    assert mine.predicate.config == {"type": "TopicNameMatches", "pattern": "a.*"}
    assert (found.on_spark, found.java_stage.converters, found.java_stage.tolerate) == (("mask",), {}, False)
    assert not found.comes_back
    assert caplog.messages == [
        "c-0: the transforms in the Java host are: cast, mine, those on Spark: mask; the converters in the Java host: "
        "none"
    ]


def test_a_java_converter_of_the_worker_counts_too(plugins: Plugins) -> None:
    found = split(plugins, "MySource", WORKER)
    assert (len(found.java_stage.steps), found.on_spark) == (3, ())
    assert found.java_stage.converters.keys() == {"value", "header"}
    value = found.java_stage.converters["value"]
    assert (value.plugin.class_name, value.config) == ("org.x.MyConverter", {"open": "(", "converter.type": "value"})
    assert value.plugin.version == "2"
    own = {"value.converter": "MyConverter", "value.converter.plugin.version": "[1,2)"}
    older = split(plugins, "MySource", WORKER, **own)
    assert older.java_stage.converters["value"].plugin.version == "1"


def test_records_of_other_connectors_cross_and_come_back(plugins: Plugins) -> None:
    found = split(plugins, "JdbcSource", {**WORKER, "value.converter": WORKER["key.converter"]})
    assert (found.before, len(found.java_stage.steps), found.after, found.comes_back) == (("cast",), 1, ("mask",), True)
    header = found.java_stage.converters["header"]
    assert header.plugin.class_name == "org.apache.kafka.connect.storage.SimpleHeaderConverter"


def test_what_cannot_run_fails_the_task(plugins: Plugins) -> None:
    sql = {"transforms.mask.type": "Sql", "transforms.mask.sql": "SELECT *"}
    with pytest.raises(ConfigError) as caught:
        split(plugins, "JdbcSource", WORKER, **sql)
    assert [problem.key for problem in caught.value.problems] == ["transforms.mask.type"]


def test_nothing_is_told_of_a_chain_without_java(plugins: Plugins, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    found = split(plugins, "MySource", {"key.converter": "x", "value.converter": "y"}, transforms="cast,mask")
    assert (bool(found.java_stage), found.on_spark) == (False, ("cast", "mask"))
    assert not caplog.messages


def test_headers_are_the_connectors_else_the_workers(plugins: Plugins) -> None:
    worker = {**WORKER, "value.converter": WORKER["key.converter"]}
    assert split(plugins, "JdbcSource", {**worker}, transforms="cast").java_stage.headers is None, (
        "beside Java ones only"
    )
    usual = split(plugins, "MySource", worker, transforms="cast").java_stage
    assert usual.headers is not None
    assert usual.headers.plugin.class_name == "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    assert not usual, "nothing else is done in Java"
    of_worker = {"header.converter": "ByteArrayConverter", "header.converter.x": "y"}
    found = split(plugins, "MySource", {**worker, **of_worker}, transforms="cast").java_stage.headers
    assert found is not None
    assert found.plugin.class_name == "org.apache.kafka.connect.converters.ByteArrayConverter"
    assert found.config == {"x": "y", "converter.type": "header"}
    own = split(plugins, "MySource", {**worker, **of_worker}, transforms="cast", **{"header.converter": "Json"})
    assert own.java_stage.headers is not None
    assert own.java_stage.headers.plugin.class_name == "org.apache.kafka.connect.json.JsonConverter"
