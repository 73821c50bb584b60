"""A connector may not name the consumer group of another connector."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.config.variables import NO_VARIABLES
from headrace.worker.errors import BadRequest
from headrace.worker.hosting.own_groups import check_own_group

GROUP = "consumer.override.group.id"
PLUGINS: Any = SimpleNamespace(variables=NO_VARIABLES, worker={"trusted.connectors": ["backup-*"]})
THERE = {"orders": {GROUP: "mine"}, "others": {"topics": "t"}, "empty": {GROUP: None}}


def test_anothers_group_is_refused() -> None:
    for config in ({GROUP: "free"}, {"topics": "t"}, {GROUP: None}):
        check_own_group("new", config, THERE, PLUGINS)
    with pytest.raises(BadRequest, match=r"mine is the consumer group of another connector.*trusted\.connectors"):
        check_own_group("new", {GROUP: "mine"}, THERE, PLUGINS)


def test_a_connector_keeps_its_own_and_who_is_trusted_joins_others() -> None:
    check_own_group("orders", {GROUP: "mine"}, THERE, PLUGINS)
    check_own_group("backup-orders", {GROUP: "mine"}, THERE, PLUGINS)
