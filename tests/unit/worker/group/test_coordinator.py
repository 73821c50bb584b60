"""The client of a group."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from headrace.worker.group import coordinator as group_coordinator
from headrace.worker.group.coordinator import GroupConnection
from headrace.worker.group.session import Timing


def test_a_closed_connection_may_be_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = MagicMock()
    coordinator.end_heartbeats.side_effect = [None, RuntimeError("NetworkSelector closed!")]
    monkeypatch.setattr(group_coordinator, "GroupClient", MagicMock())
    monkeypatch.setattr(group_coordinator, "Coordinator", lambda *_, **__: coordinator)
    seat: Any = MagicMock()
    connection = GroupConnection({}, "g", MagicMock(spec=Timing), seat)
    connection.close()
    connection.close()
