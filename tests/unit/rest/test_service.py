"""A worker's listeners, and the warning of what is open where they are on all interfaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.config.worker import WorkerConfig
from headrace.rest.service import RestService
from tests.unit.rest.conftest import SETTINGS
from tests.unit.rest.scripted import scripted


@pytest.fixture
def started(caplog: pytest.LogCaptureFixture) -> Callable[..., str]:
    """Starts a service with these settings, and gives the warnings of it."""

    def start(**settings: str) -> str:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        service = RestService(WorkerConfig.standalone({**SETTINGS, **given}))
        caplog.clear()
        metrics: Any = None
        service.start(scripted(), metrics, None)
        service.stop()
        return caplog.text

    return start


def test_on_all_interfaces_it_says_what_is_open(started: Callable[..., str]) -> None:
    said = started(listeners="http://:0")
    assert "listens on all interfaces, without login" in said
    for setting in ("rest.mask.secrets", "file.allowed.paths", "admin.listeners"):
        assert f"({setting})" in said
    less = started(listeners="http://0.0.0.0:0", rest_mask_secrets="true", file_allowed_paths="/data")
    assert "create, change and delete connectors" in less
    assert "(rest.mask.secrets)" not in less
    assert "(file.allowed.paths)" not in less
    assert "listens on all interfaces" in started(listeners="http://127.0.0.1:0", admin_listeners="http://0.0.0.0:0")


def test_on_loopback_it_says_nothing(started: Callable[..., str]) -> None:
    assert started(listeners="http://127.0.0.1:0,http://localhost:0") == ""
