"""Acceptance tests for plugin authors: what any source or sink must pass, with pytest and without Kafka.

A plugin author describes the outside system once (`SourceRig`, `SinkRig`) and subclasses the contracts:

    class TestMySource(SourceContract):
        @pytest.fixture
        def rig(self, tmp_path: Path) -> SourceRig:
            return MyRig(tmp_path)

The task is driven as by the worker: readers and writers go through pickle, and offsets through JSON. In a crash the
task is left unstopped, and another one continues from what is stored. The contracts `…OnSpark` also need a fixture
`spark` (a session).
"""

from headrace.plugins.testkit.driving import HOSTILE, LARGE, PLAIN, SMALL, start_task
from headrace.plugins.testkit.sinks import SinkContract, SinkDrive, SinkOnSparkContract, SinkRig
from headrace.plugins.testkit.sources import SourceContract, SourceDrive, SourceOnSparkContract, SourceRig, frame_of

__all__ = [
    "HOSTILE",
    "LARGE",
    "PLAIN",
    "SMALL",
    "SinkContract",
    "SinkDrive",
    "SinkOnSparkContract",
    "SinkRig",
    "SourceContract",
    "SourceDrive",
    "SourceOnSparkContract",
    "SourceRig",
    "frame_of",
    "start_task",
]
