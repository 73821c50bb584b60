"""A small cluster, killed and restarted, loses nothing and stays as it is; `make soak-day` runs a large one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.soak.report import report
from tests.soak.run import Run, Scale

pytestmark = [pytest.mark.soak, pytest.mark.kafka, pytest.mark.spark]

MINUTES: Final = float(os.environ.get("HEADRACE_TEST_SECONDS", "900")) / 60


@pytest.mark.timeout(60 * MINUTES + 1800)
@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_shaken_cluster_of_many_connectors_stays_as_it_is(tmp_path: Path, exactly_once: bool) -> None:
    every_min = MINUTES / 4
    Run(tmp_path, Scale(40, 2, MINUTES, every_min, 2.2 * every_min, delay_s=10.0, exactly_once=exactly_once)).go()
    table, holds = report(tmp_path)
    print(table)
    assert holds, table
