"""The flows that MirrorMaker's file makes, and what their workers and connectors get, beside Apache's own class."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.config.properties import read_properties
from headrace.config.worker.mirror_maker import MirrorMakerConfig
from headrace.config.worker.trusted import TRUSTED
from headrace.connectors.mirror.settings import CHECKPOINT, HEARTBEAT, SOURCE
from headrace.plugins.interop.jvm import jars
from headrace.worker.engine.driver import Spark

KEYS = {setting.name for settings in (SOURCE, CHECKPOINT, HEARTBEAT) for setting in settings}
SHIPPED = read_properties(Path(headrace.__file__).parent / "config" / "connect-mirror-maker.properties")

_SOURCE = """
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.connect.mirror.MirrorMaker;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.SourceAndTarget;

public class MirrorFlows {
  public String flows(Map properties) throws Exception {
    MirrorMakerConfig config = new MirrorMakerConfig(properties);
    Map flows = new TreeMap();
    for (Iterator pairs = config.clusterPairs().iterator(); pairs.hasNext();) {
      SourceAndTarget pair = (SourceAndTarget) pairs.next();
      Map flow = new TreeMap();
      flow.put("worker", config.workerConfig(pair));
      for (Iterator classes = MirrorMaker.CONNECTOR_CLASSES.iterator(); classes.hasNext();) {
        Class one = (Class) classes.next();
        flow.put(one.getSimpleName(), config.connectorBaseConfig(pair, one));
      }
      flows.put(pair.toString(), flow);
    }
    return new ObjectMapper().writeValueAsString(flows);
  }
}
"""
Flows = dict[str, dict[str, dict[str, str]]]


@pytest.fixture(scope="module")
def apache(engine: Spark) -> Callable[[Mapping[str, str]], Flows]:
    """The flows that Apache's MirrorMakerConfig makes of properties."""
    session = engine.session()
    jvm: Any = session._jvm
    gateway: Any = session.sparkContext._gateway
    found = jars.fetch("connect")
    urls = gateway.new_array(jvm.java.net.URL, len(found))
    for number, jar in enumerate(found):
        urls[number] = jvm.java.io.File(str(jar)).toURI().toURL()
    loader = jvm.java.net.URLClassLoader(urls, jvm.java.lang.ClassLoader.getPlatformClassLoader())
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(_SOURCE)
    no_types = gateway.new_array(jvm.java.lang.Class, 0)
    made = compiler.getClassLoader().loadClass("MirrorFlows").getDeclaredConstructor(no_types)
    oracle = made.newInstance(gateway.new_array(jvm.java.lang.Object, 0))
    thread = jvm.java.lang.Thread.currentThread()

    def flows(properties: Mapping[str, str]) -> Flows:
        before = thread.getContextClassLoader()
        try:
            answer: Flows = json.loads(oracle.flows(dict(properties)))
        finally:
            thread.setContextClassLoader(before)
        return answer

    return flows


TWO = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1, b:2"}
THREE = {
    "clusters": "us-east,eu_1,X",
    **{f"{one}.bootstrap.servers": f"{one}:9092" for one in ("us-east", "eu_1", "X")},
}
CASES: dict[str, dict[str, str]] = {
    "shipped": SHIPPED,
    "nothing but clusters": TWO,
    "no heartbeats": {**TWO, "emit.heartbeats.enabled": "false", "A->B.enabled": "TRUE"},
    "heartbeats of one flow": {**TWO, "emit.heartbeats.enabled": "false", "B->A.emit.heartbeats.enabled": "true"},
    "all but heartbeats of one flow": {**TWO, "A->B.emit.heartbeats.enabled": "false"},
    "three clusters": {
        **THREE,
        "us-east->X.enabled": "true",
        "us-east->X.topics": "a, b",
        "emit.heartbeats.enabled": "false",
    },
    "servers for all": {"clusters": "A,B", "bootstrap.servers": "all:1", "A.bootstrap.servers": "a:1"},
    "security": {
        **TWO,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "for all",
        "B.security.protocol": "PLAINTEXT",
        "B.producer.security.protocol": "SSL",
        "A.consumer.sasl.jaas.config": "of A's consumer",
        "A.ssl.truststore.location": "/a.jks",
        "A.admin.request.timeout.ms": "5",
    },
    "settings of connectors": {
        **TWO,
        "tasks.max": "7",
        "topics": "x.*",
        "sync.group.offsets.enabled": "true",
        "emit.checkpoints.interval.seconds": "5",
        "A->B.tasks.max": "9",
        "A->B.groups": "g",
        "A->B.producer.override.batch.size": "1",
        "A->B.transforms": "t",
        "topic.creation.default.partitions": "not theirs at the top",
        "name": "mine",
        "transforms": "u",
    },
    "settings of workers": {
        **TWO,
        "offset.storage.topic": "o",
        "offset.storage.partitions": "3",
        "B.offset.storage.partitions": "4",
        "B.offset.flush.interval.ms": "5000",
        "B.group.id": "mine",
        "B.exactly.once.source.support": "enabled",
        "A.consumer.isolation.level": "read_committed",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "key.converter.more": "1",
        "task.shutdown.graceful.timeout.ms": "1",
        "worker.sync.timeout.ms": "2",
        "config.storage.replication.factor": "1",
        "status.storage.x": "1",
        "group.id": "not used at the top",
        "producer.linger.ms": "not used at the top",
    },
    "policy": {
        **TWO,
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "replication.policy.separator": "_",
        "replication.policy.own": "1",
        "B.replication.policy.separator": "-",
    },
    "variables": {**TWO, "A.sasl.jaas.config": "${env:PATH}", "A->B.topics": "${env:PATH}"},
    "keys that begin like clients": {**TWO, "A.consumers.x": "1", "A.producer": "2", "A.administered": "3", "A.": "4"},
}


@pytest.mark.parametrize("case", CASES)
def test_flows_are_apaches_to_the_letter(case: str, apache: Callable[[Mapping[str, str]], Flows]) -> None:
    props = {**CASES[case], "plugin.discovery": "service_load"}  # no scan of all Spark's classes for each case
    ours = {
        str(flow): {"worker": dict(flow.worker), **{name: dict(config) for name, config in flow.connectors.items()}}
        for flow in MirrorMakerConfig.of(props, KEYS).flows
    }
    wanted = apache(props)
    assert sorted(ours) == sorted(wanted)
    for flow, parts in wanted.items():
        assert ours[flow]["worker"].pop(TRUSTED) == "*"  # no setting of Apache's
        assert ours[flow] == parts, flow
