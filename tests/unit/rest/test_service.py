"""A worker's listeners, and the warning of what is open where they are on all interfaces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.rest.service import RestService
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.tasks.metrics import TasksMetrics
from tests.certificates import Authority
from tests.unit.rest.conftest import SETTINGS
from tests.unit.rest.scripted import scripted


@pytest.fixture
def started(caplog: pytest.LogCaptureFixture) -> Callable[..., str]:
    """Starts a service with these settings, and gives the warnings of it."""

    def start(**settings: str) -> str:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        service = RestService(WorkerConfig.standalone({**SETTINGS, **given}))
        caplog.clear()
        herder = scripted()
        service.start(herder, WorkerMetrics(herder, "here:8083", TasksMetrics(), StartupCounter()), None)
        service.stop()
        # A thread that an earlier test has left may log, too.
        return "\n".join(one.getMessage() for one in caplog.records if one.name.startswith("headrace.rest."))

    return start


def test_on_all_interfaces_it_says_what_is_open(started: Callable[..., str]) -> None:
    said = started(listeners="http://:0")
    assert "listens on all interfaces, without login" in said
    for setting in ("rest.mask.secrets", "file.allowed.paths", "connector.allowed.hosts", "admin.listeners"):
        assert f"({setting})" in said
    less = started(listeners="http://0.0.0.0:0", rest_mask_secrets="true", file_allowed_paths="/data")
    assert "create, change and delete connectors" in less
    assert "(rest.mask.secrets)" not in less
    assert "(file.allowed.paths)" not in less
    assert "listens on all interfaces" in started(listeners="http://127.0.0.1:0", admin_listeners="http://0.0.0.0:0")


def test_certificates_that_clients_must_show_leave_nothing_open(started: Callable[..., str], tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "key.pem").write_text(authority.issue("worker").pem)
    (tmp_path / "ca.pem").write_text(authority.pem)
    stores = {"key": "key.pem", "trust": "ca.pem"}
    tls = {f"ssl_{kind}store_location": str(tmp_path / name) for kind, name in stores.items()}
    assert "without login (https://" in started(listeners="https://:0", ssl_client_auth="requested", **tls)
    assert started(listeners="https://:0", ssl_client_auth="required", **tls) == ""
    both = started(listeners="https://:0,http://:0", ssl_client_auth="required", **tls)
    assert "without login and encryption (http://" in both


def test_on_loopback_it_says_nothing(started: Callable[..., str]) -> None:
    assert started(listeners="http://127.0.0.1:0,http://localhost:0") == ""


def test_with_login_it_says_that_passwords_go_in_plain(started: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann=secret\n")
    users = {"rest_basic_auth_users_file": str(tmp_path / "users")}
    said = started(listeners="http://:0", **users)
    assert "without login" not in said
    assert "takes logins without encryption" in said
    assert started(listeners="http://127.0.0.1:0", **users) == ""


def test_a_login_that_cannot_be_refuses_the_start() -> None:
    with pytest.raises(ConfigError, match="There is no such file"):
        RestService(WorkerConfig.standalone({**SETTINGS, "rest.basic.auth.users.file": "/nowhere"}))
