"""Acceptance tests for plugin authors: what any source or sink must pass, with pytest and without Kafka.

An author describes the outside system once, in three or four methods, and subclasses the contracts:

    class ShopRig(SourceRig):
        def __init__(self):
            self.outside = Shop()                       # a HttpOutside or Outside: it fails on command

        def connector(self):
            return Prices()

        def config(self):
            return {"url": self.outside.url, "topic": "prices"}

        def put(self, values):
            self.outside.prices += values

    class TestPrices(SourceContract, SourceFaultsContract):
        @pytest.fixture
        def rig(self):
            rig = ShopRig()
            yield rig
            rig.outside.close()

A test that fails names the promise that was broken, and shows both sides. The task is driven as by the worker: readers
and writers go through pickle, and offsets through JSON. In a crash the task is left unstopped, and another one
continues from what is stored.

| contract | for |
|---|---|
| `SourceContract`, `SinkContract` | every connector, over Arrow batches or over records |
| `RecordSinkContract` | a RecordSink, in place of `SinkContract`: also tombstones, headers, several schemas |
| `SourceFaultsContract`, `SinkFaultsContract` | those whose rig has an `outside` that fails on command |
| `PreviewedSinkContract` | a sink that says what it would write |
| `SinkFencingContract` | a sink that writes each record once |
| `SourceOnSparkContract`, `SinkOnSparkContract` | `records` and `columns`; they need the fixture `spark` |
| `TransformContract`, `PredicateContract`, `ConverterContract` | expressions; they need the fixture `spark` |
| `ConfigProviderContract` | a config provider |
"""

from headrace.plugins.testkit.converter_contract import ConverterContract
from headrace.plugins.testkit.driving import EQUAL, HOSTILE, LARGE, PLAIN, SMALL, start_tasks
from headrace.plugins.testkit.outside import Failure, HttpOutside, Outside, Request
from headrace.plugins.testkit.preview_contract import PreviewedSinkContract
from headrace.plugins.testkit.promises import broken, holds, same
from headrace.plugins.testkit.provider_contract import ConfigProviderContract
from headrace.plugins.testkit.sink_contract import (
    RecordSinkContract,
    SinkContract,
    SinkFencingContract,
    SinkOnSparkContract,
)
from headrace.plugins.testkit.sink_drive import SinkDrive, SinkRig
from headrace.plugins.testkit.sink_faults import SinkFaultsContract
from headrace.plugins.testkit.source_contract import (
    SourceContract,
    SourceOnSparkContract,
    frame_of,
)
from headrace.plugins.testkit.source_drive import SourceDrive, SourceRig
from headrace.plugins.testkit.source_faults import SourceFaultsContract
from headrace.plugins.testkit.tcp_outside import TcpOutside
from headrace.plugins.testkit.transform_contract import PredicateContract, TransformContract

__all__ = [
    "EQUAL",
    "HOSTILE",
    "LARGE",
    "PLAIN",
    "SMALL",
    "ConfigProviderContract",
    "ConverterContract",
    "Failure",
    "HttpOutside",
    "Outside",
    "PredicateContract",
    "PreviewedSinkContract",
    "RecordSinkContract",
    "Request",
    "SinkContract",
    "SinkDrive",
    "SinkFaultsContract",
    "SinkFencingContract",
    "SinkOnSparkContract",
    "SinkRig",
    "SourceContract",
    "SourceDrive",
    "SourceFaultsContract",
    "SourceOnSparkContract",
    "SourceRig",
    "TcpOutside",
    "TransformContract",
    "broken",
    "frame_of",
    "holds",
    "same",
    "start_tasks",
]
