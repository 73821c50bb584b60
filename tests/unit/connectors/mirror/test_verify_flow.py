"""The flow that is verified, by MirrorMaker's file and by options; options that make no sense are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.connectors.mirror.verify.flow import VerifiedFlow
from headrace.connectors.mirror.verify.request import Asked, UsageError

NO_SERVERS = {"source": None, "target": None}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "secrets").write_text("password=hidden\n", encoding="utf-8")
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\nA->B.topics=or.*\n"
        "emit.heartbeats.enabled=false\nsync.group.offsets.enabled=true\nA.consumer.isolation.level=read_committed\n"
        "config.providers=file\n"
        "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
        f"A.ssl.truststore.password=${{file:{tmp_path}/secrets:password}}\n",
        encoding="utf-8",
    )
    return path


def test_a_file_describes_the_flow_with_its_variables_resolved(file: Path) -> None:
    flow = VerifiedFlow.of("A", "B", file, NO_SERVERS, ["replication.policy.separator=_"])
    assert flow.config["source.cluster.bootstrap.servers"] == "a:1"
    assert flow.config["source.cluster.ssl.truststore.password"] == "hidden"
    assert flow.replicates("orders")
    assert not flow.replicates("B_orders")
    assert not flow.replicates("other")
    assert flow.copy_of("orders") == "A_orders"
    assert flow.groups.synced
    source, _ = VerifiedFlow.of("A", "B", file, {"source": "a:2", "target": "b:2"}, []).clusters(1)
    assert source.committed_only


@pytest.mark.parametrize(
    ("source", "settings", "said"),
    [("B", [], "has no flow B->A; it has A->B"), ("A", ["nothing"], "write KEY=VALUE")],
)
def test_what_the_file_does_not_say_is_refused(file: Path, source: str, settings: list[str], said: str) -> None:
    target = "A" if source == "B" else "B"
    with pytest.raises(UsageError, match=said):
        VerifiedFlow.of(source, target, file, NO_SERVERS, settings)


def test_without_a_file_both_clusters_have_to_be_given() -> None:
    with pytest.raises(UsageError, match="cluster B is not known: give --properties FILE or --target-bootstrap"):
        VerifiedFlow.of("A", "B", None, {"source": "a:1", "target": None}, [])


@pytest.mark.parametrize(
    "options",
    [{"last": 1, "since": "1h"}, {"last": 1, "from_offset": 0}, {"from_offset": 5, "to_offset": 4}, {"since": "soon"}],
)
def test_ranges_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Asked(**options)  # type: ignore[arg-type]
