"""The Delta sink keeps what the kit asks of a sink, inline and as in a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.plugins.testkit import PreviewedSinkContract, SinkContract, SinkFencingContract
from tests.unit.connectors.lake.delta_rig import DeltaRig


class TestAppends(SinkContract, PreviewedSinkContract, SinkFencingContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> DeltaRig:
        return DeltaRig(tmp_path)


class TestUpserts(SinkContract, PreviewedSinkContract, SinkFencingContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> DeltaRig:
        rig = DeltaRig(tmp_path, **{"write.mode": "upsert", "id.columns": "n"})
        rig.many = 20_000
        return rig
