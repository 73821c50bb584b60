"""A broker that is fenced for its silence: what is copied from it, and to it, goes on once it is back."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.brokers_apart import fenced_broker
from tests.integration.copied_topics import create, new_name, numbered, records_of, write
from tests.integration.mirror_process import MirrorProcess, two_clusters
from tests.integration.worker_process import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]


class Flow(NamedTuple):
    """A topic, and where it is copied to."""

    source: str
    target: str
    topic: str
    copy: str

    def write(self, numbers: range) -> None:
        """Write a record of each number into the topic."""
        write(self.source, self.topic, map(numbered, numbers))

    def arrives(self, process: MirrorProcess) -> None:
        """Wait until the copy has all records of the topic, in their order."""
        wanted = [one.content for one in records_of(self.source, self.topic)]

        def copied() -> bool:
            return list(dict.fromkeys(one.content for one in records_of(self.target, self.copy))) == wanted

        eventually(copied, 180, lambda: process.log()[-4000:], every_s=0.5)


@pytest.mark.soak
def test_what_is_copied_from_a_fenced_broker_and_to_it_goes_on(broker: str, tmp_path: Path) -> None:
    with fenced_broker(tmp_path / "kafka") as fenced:
        one = fenced.bootstrap_servers
        there, back = create(one, new_name("there")), create(broker, new_name("back"))
        flows = Flow(one, broker, there, f"A.{there}"), Flow(broker, one, back, f"B.{back}")
        settings = two_clusters(one, broker) | {"emit.heartbeats.enabled": "false"}
        settings |= {"A->B.enabled": "true", "A->B.topics": "there-.*"}
        settings |= {"B->A.enabled": "true", "B->A.topics": "back-.*"}
        for flow in flows:
            flow.write(range(1_000))
        with MirrorProcess(tmp_path / "mirror", settings) as process:
            process.wait_ready(180)
            for flow in flows:
                flow.arrives(process)
            with fenced.silent():
                flows[1].write(range(1_000, 2_000))
            flows[0].write(range(1_000, 2_000))
            for flow in flows:
                flow.arrives(process)
