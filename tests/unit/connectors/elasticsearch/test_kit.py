"""The kit for sinks over the Elasticsearch sink."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.plugins.testkit import PreviewedSinkContract, SinkContract, SinkFaultsContract
from tests.unit.connectors.elasticsearch.elasticsearch_rig import ElasticsearchRig


class TestElasticsearchSink(SinkContract, SinkFaultsContract, PreviewedSinkContract):
    @pytest.fixture
    def rig(self) -> Iterator[ElasticsearchRig]:
        rig = ElasticsearchRig()
        yield rig
        rig.outside.close()
