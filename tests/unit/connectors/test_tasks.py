"""Rules for the tasks of all shipped connectors."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import pytest

CONNECTORS = [*entry_points(group="headrace.source"), *entry_points(group="headrace.sink")]


@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda connector: str(connector.name))
def test_a_task_whose_start_failed_at_once_can_be_stopped(connector: EntryPoint) -> None:
    connector.load().task().stop()
