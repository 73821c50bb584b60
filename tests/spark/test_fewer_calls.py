"""What goes through the gateway: names are asked for once, what Python lets go of is released by few messages."""

from __future__ import annotations

import gc
from functools import partial
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import functions as F

from headrace.worker.engine.driver import Spark
from tests.integration.worker_process import eventually

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def gateway(engine: Spark) -> Any:
    assert engine.is_ready
    return SparkContext._gateway


@pytest.fixture
def sent(gateway: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that are sent one by one."""
    commands: list[str] = []
    client = type(gateway._gateway_client)
    send = client.send_command

    def noted(self: Any, command: str, *more: Any, **named: Any) -> Any:
        commands.append(command)
        return send(self, command, *more, **named)

    monkeypatch.setattr(client, "send_command", noted)
    return commands


def test_a_name_is_asked_for_once(engine: Spark, sent: list[str]) -> None:
    jvm: Any = engine.session()._jvm
    assert jvm.org.apache.spark.sql.functions.lit(1) is not None
    F.upper(F.lit("a"))
    sent.clear()
    assert jvm.org.apache.spark.sql.functions.lit(2) is not None
    F.upper(F.lit("a"))
    assert {command[0] for command in sent} == {"c"}


def test_what_may_change_is_asked_for_each_time(engine: Spark, sent: list[str]) -> None:
    jvm: Any = engine.session()._jvm
    first = jvm.java.lang.Integer.MAX_VALUE
    sent.clear()
    assert first == jvm.java.lang.Integer.MAX_VALUE
    assert len(sent) == 1
    assert type(jvm.org.example.NotThere) is type(jvm.org)  # py4j takes it for a package, until it is loaded
    sent.clear()
    assert jvm.org.example.NotThere is not None
    assert getattr(jvm, "org.example.NotThere") is not getattr(jvm, "org.example.NotThere")
    with pytest.raises(TypeError, match="'JavaPackage' object is not callable"):  # a text that pyspark looks for
        jvm.org.example.NotThere()


def test_objects_are_released_without_a_command_each(engine: Spark, gateway: Any, sent: list[str]) -> None:
    jvm: Any = engine.session()._jvm
    known = gateway.java_gateway_server.getGateway().getBindings()
    objects = [jvm.java.util.ArrayList() for _ in range(2500)]
    names = [one._target_id for one in objects]
    assert all(known.containsKey(name) for name in names[::500])
    del objects
    gc.collect()
    eventually(lambda: not any(known.containsKey(name) for name in [*names[::500], names[-1]]), 60)
    assert not [command for command in sent if command.startswith("m")]


def test_one_connection_takes_all_releases(engine: Spark, gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    jvm: Any = engine.session()._jvm
    known = gateway.java_gateway_server.getGateway().getBindings()
    client, opened = gateway._gateway_client, list[object]()
    open_one = client._create_new_connection

    def noted() -> object:
        opened.append(connection := open_one())
        return connection

    monkeypatch.setattr(client, "_create_new_connection", noted)
    for _ in range(4):
        name = jvm.java.util.ArrayList()._target_id
        gc.collect()
        eventually(partial(lambda one: not known.containsKey(one), name), 60)
    assert len(opened) <= 1
