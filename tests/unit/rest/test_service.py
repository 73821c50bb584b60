"""A worker's listeners, and the warning of what is open where they are on all interfaces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.mirror_maker import MirrorMakerConfig
from headrace.rest.metrics_service import MetricsService
from headrace.rest.mirror import MirrorService
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


RULES = '[[rules]]\nwho = ["user:ann"]\nconnectors = ["*"]\nrights = ["edit"]\n'


def metrics_url(service: RestService | MirrorService) -> str:
    (found,) = (one for one in vars(service).values() if isinstance(one, MetricsService))
    return str(found.bound[0])


def test_metrics_alone_answer_on_their_listeners_without_login(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann=secret\n")
    (tmp_path / "rights.toml").write_text(RULES)
    own = {
        "listeners": "http://127.0.0.1:0",
        "metrics.listeners": "http://127.0.0.1:0",
        "rest.basic.auth.users.file": str(tmp_path / "users"),
        "rest.rights.file": str(tmp_path / "rights.toml"),
        "rest.audit.log": "text",
    }
    service = RestService(WorkerConfig.standalone({**SETTINGS, **own}))
    herder = scripted({"connectors": []})
    service.start(herder, WorkerMetrics(herder, "here:8083", TasksMetrics(), StartupCounter()), None)
    try:
        assert httpx.get(f"{service.bound[0]}/metrics").status_code == 401
        url = metrics_url(service)
        answer = httpx.get(f"{url}/metrics")
        assert answer.status_code == 200
        assert "kafka_connect_worker_connector_count" in answer.text
        others = [httpx.get(url + path).status_code for path in ("/", "/connectors", "/health", "/admin/loggers")]
        assert others == [404] * 4
        assert httpx.put(f"{url}/admin/drain").status_code == 404
        assert httpx.get(f"{url}/metrics", headers={"Host": "attacker.example.com"}).status_code == 403
    finally:
        service.stop()


def test_metrics_are_not_on_all_listeners_unless_asked_for() -> None:
    assert WorkerConfig.standalone(SETTINGS).metrics_listeners() == []
    with pytest.raises(ConfigError, match=r"metrics\.listeners"):
        WorkerConfig.standalone({**SETTINGS, "metrics.listeners": "9404"})


def test_a_mirror_that_listens_nowhere_else_has_metrics() -> None:
    props = {
        "clusters": "A,B",
        "A.bootstrap.servers": "127.0.0.1:1",
        "B.bootstrap.servers": "127.0.0.1:2",
        "A->B.enabled": "true",
        "metrics.listeners": "http://127.0.0.1:0",
    }
    service = MirrorService(MirrorMakerConfig.of(props, ()))
    assert service.bound == []
    service.start(SimpleNamespace(metrics_text=lambda: "up 1\n"), None)
    try:
        assert httpx.get(f"{metrics_url(service)}/metrics").text == "up 1\n"
    finally:
        service.stop()
