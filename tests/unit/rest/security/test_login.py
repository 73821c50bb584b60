"""The login over HTTP: who comes in, what the others are answered, and what the log says."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import APIRouter, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.rest.mirror import app as mirror_app
from headrace.rest.security import extensions, login
from headrace.rest.security.auth_layer import AuthLayer
from headrace.rest.security.principal import Principal, principal_of, set_principal
from headrace.rest.server import HttpServer
from headrace.worker.errors import Elsewhere
from headrace.worker.herder.flows import Flows
from headrace.worker.herder.process_metrics import ProcessMetrics
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.model import Health
from tests.unit.rest.conftest import SETTINGS
from tests.unit.rest.scripted import FREE
from tests.unit.rest.security.entered import entered
from tests.unit.rest.security.issuer import AUDIENCE, ISSUER, JwksServer, jwk, token
from tests.unit.rest.security.test_users import APACHES, hashed, jaas

NO_ACCESS = {"error_code": 401, "message": "User cannot access the resource."}
ANN = httpx.BasicAuth("ann", "secret")
PRIVATE = rsa.generate_private_key(65537, 2048)


@pytest.fixture
def users(tmp_path: Path) -> dict[str, str]:
    """Settings with a file of users."""
    path = tmp_path / "users"
    path.write_text(f"ann={hashed('secret')}\nplain=hunter2\n")
    return {"rest.basic.auth.users.file": str(path)}


@pytest.fixture
def bearer(tmp_path: Path) -> dict[str, str]:
    """Settings with bearer tokens."""
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [jwk(PRIVATE, "k1")]}))
    return {
        "rest.bearer.jwks.endpoint.url": path.as_uri(),
        "rest.bearer.expected.issuer": ISSUER,
        "rest.bearer.expected.audience": AUDIENCE,
    }


def told(principals: list[Principal]) -> dict[str, Any]:
    """An extension's route that tells who asks, as the entry points of the tests have it."""
    router = APIRouter()

    @router.get("/who")
    def who(request: Request) -> dict[str, Any]:
        principals.append(principal_of(request.scope))
        return {}

    return {"router": router}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Principal]:
    """The principals that asked GET /who, a route of an extension `test.Who`."""
    found: list[Principal] = []

    class Who:
        def register(self, context: extensions.ExtensionContext) -> None:
            context.add_routes(told(found)["router"])

    install(monkeypatch, {"test.Who": Who})
    return found


def install(monkeypatch: pytest.MonkeyPatch, classes: dict[str, Any]) -> None:
    class Entry:
        value = "tests"

        def __init__(self, name: str, found: Any) -> None:
            self.name = name
            self._found = found

        def load(self) -> Any:
            return self._found

    entries = [Entry(name, found) for name, found in classes.items()]
    monkeypatch.setattr(extensions, "entry_points", lambda group: entries if group == extensions._GROUP else [])


def test_everything_needs_a_login_under_apaches_name(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("ann=secret\n")
    environment = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas(tmp_path, str(path))}"}
    with entered({"rest.extension.classes": APACHES}, environment=environment) as (client, _):
        for path_ in ("/", "/health", "/metrics", "/connectors", "/openapi.json", "/admin/loggers", "/nowhere", "//"):
            answer = client.get(path_)
            assert (answer.status_code, answer.json()) == (401, NO_ACCESS), path_
            assert answer.headers["content-type"] == "application/json"
            assert "www-authenticate" not in answer.headers
        assert client.get("/connectors", auth=ANN).json() == ["c"]
        assert client.get(
            "/connectors", headers={"Authorization": ANN._auth_header.replace("Basic", "bAsIc")}
        ).is_success
        assert client.get("/nowhere", auth=ANN).status_code == 404
        assert client.options("/connectors").status_code == 401
        for header in ("", "Basic", "Basic !", "Basic =", "Bearer x", ANN._auth_header[6:], f"Basic {'x' * 9000}"):
            assert client.get("/connectors", headers={"Authorization": header}).json() == NO_ACCESS, header


def test_internal_requests_are_let_to_their_signature(users: dict[str, str]) -> None:
    with entered(users) as (client, herder):
        assert client.post("/connectors/a%2Fb/tasks/", json=[]).status_code == 204
        assert client.put("/connectors/c/fence").status_code == 204
        assert [one[:2] for one in herder.asked] == [("put_task_configs", "a/b"), ("fence_zombies", "c")]
        others = [("PUT", "/connectors/c/tasks"), ("POST", "/connectors/c/fence"), ("GET", "/connectors/c/tasks")]
        others += [
            ("POST", "/connectors/c/tasks/0/restart"),
            ("POST", "/connectors/c/../tasks/x"),
            ("DELETE", "/connectors/c"),
        ]
        for method, path in others:
            assert client.request(method, path).status_code == 401, (method, path)
        assert len(herder.asked) == 2


def test_the_admin_listener_needs_it_too(users: dict[str, str]) -> None:
    with entered(users, admin=True) as (client, _):
        assert client.get("/admin/loggers").status_code == client.get("/metrics").status_code == 401
        assert client.get("/admin/loggers", auth=ANN).status_code == 200


def test_health_and_metrics_are_open_where_a_setting_says_so(users: dict[str, str]) -> None:
    health = {"health": Health("healthy", "fine"), "kafka_away_seconds": 0.0, "connectors": []}
    with entered({**users, "rest.login.open.paths": "/health"}, health) as (client, _):
        assert client.get("/health").status_code == client.head("/health/?strict").status_code == 200
        assert client.get("/metrics").status_code == 401
        assert client.post("/health").status_code == 401
        assert client.get("/health/../connectors").status_code == 401
    with pytest.raises(ConfigError, match=r"rest\.login\.open\.paths"):
        WorkerConfig.standalone({**SETTINGS, "rest.login.open.paths": "/connectors"})


def test_a_preflight_needs_no_login_and_its_request_does(users: dict[str, str]) -> None:
    page = {"Origin": "https://page.example", "Access-Control-Request-Method": "GET"}
    with entered({**users, "access.control.allow.origin": "https://page.example"}) as (client, _):
        assert client.options("/connectors", headers=page).status_code == 200
        answer = client.get("/connectors", headers={"Origin": "https://page.example"})
        assert answer.status_code == 401
        assert answer.headers["access-control-allow-origin"] == "https://page.example"


def test_who_asks_by_token(bearer: dict[str, str], asked: list[Principal]) -> None:
    with entered({**bearer, "rest.extension.classes": "test.Who"}) as (client, _):
        good = {"Authorization": f"Bearer {token(PRIVATE, groups=['ops'])}"}
        assert client.get("/who", headers=good).status_code == 200
        assert asked == [Principal("ann", frozenset({"ops"}))]
        answer = client.get("/who", headers={"Authorization": f"Bearer {token(PRIVATE, aud='x')}"})
        assert (answer.status_code, answer.json(), answer.headers["www-authenticate"]) == (401, NO_ACCESS, "Bearer")


def test_keys_that_cannot_be_fetched_are_a_503_with_the_reason(bearer: dict[str, str]) -> None:
    server = JwksServer([])
    server.status = 502
    with entered({**bearer, "rest.bearer.jwks.endpoint.url": server.url}) as (client, _):
        answer = client.get("/connectors", headers={"Authorization": f"Bearer {token(PRIVATE)}"})
    server.stop()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert "/jwks: the answer has status 502" in answer.json()["message"]


def test_several_ways_at_once(users: dict[str, str], bearer: dict[str, str], asked: list[Principal]) -> None:
    authenticators = {**users, **bearer, "rest.client.certificate.login": "true", "rest.extension.classes": "test.Who"}
    authenticators["ssl.principal.mapping.rules"] = "RULE:^CN=([^,]+)$/$1/L"
    with entered(authenticators, certificate="CN=Proxy") as (client, _):
        client.get("/who")
        client.get("/who", auth=ANN)
        client.get("/who", headers={"Authorization": f"Bearer {token(PRIVATE, sub='bob')}"})
        client.get("/who", headers={"Authorization": "Negotiate x"})
        assert [one.name for one in asked] == ["proxy", "ann", "bob", "proxy"]
        # A proxy's user with a wrong password does not become the proxy.
        assert client.get("/who", auth=("ann", "wrong")).status_code == 401
        assert client.get("/who", headers={"Authorization": "Bearer x"}).status_code == 401
    with entered(authenticators, certificate="CN=Proxy,O=Others") as (client, _):
        assert client.get("/who").status_code == 401


def test_a_certificate_is_a_login_only_where_a_setting_says_so(users: dict[str, str]) -> None:
    with entered(users, certificate="CN=ann") as (client, _):
        assert client.get("/connectors").status_code == 401
    with (
        pytest.raises(ConfigError, match="No client is asked for a certificate"),
        entered({"rest.client.certificate.login": "true"}, asks_for_certificates=False),
    ):
        pass


def test_wrong_logins_are_logged_within_bounds_and_without_passwords(
    users: dict[str, str], bearer: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    wrong = token(PRIVATE, aud="x")
    with entered({**users, **bearer}) as (client, _):
        client.get("/connectors")
        client.get("/connectors", auth=("plain", "pa55word-typed"))
        client.get("/connectors", auth=("pa55word-typed", "x"))
        client.get("/connectors", headers={"Authorization": f"Bearer {wrong}"})
        for _ in range(50):
            client.get("/connectors", auth=("plain", "pa55word-typed"))
    lines = [one.getMessage() for one in caplog.records if one.name == login.log.name]
    assert len(lines) == login._TOLD
    assert lines[0].endswith("from 127.0.0.1 for GET /connectors: wrong password of user 'plain'")
    assert lines[1].endswith("no such user")
    assert lines[2].endswith("its audience is another")
    assert "pa55word" not in caplog.text
    assert wrong[:40] not in caplog.text


def test_those_left_out_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    failures = login.FailedLogins(lambda: now)
    scope = {"client": ("10.0.0.1", 1), "method": "GET", "path": "/a\nb", "raw_path": b"/a%0Ab"}
    for _ in range(30):
        failures.tell(scope, "why")
    now = 61.0
    failures.tell(scope, "why")
    assert len(caplog.records) == 11
    assert caplog.records[-1].getMessage().endswith("from 10.0.0.1 for GET /a%0Ab: why (20 more failed before)")


def test_a_body_of_a_stranger_is_not_read(users: dict[str, str]) -> None:
    with entered(users) as (client, _):
        answer = client.put("/connectors/c/config", content=b"x" * 50_000, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.headers["connection"]) == (401, "close")


# Forwarding between workers.


@pytest.mark.parametrize("way", ["password", "certificate"])
def test_who_asks_stays_so_when_a_worker_forwards(
    users: dict[str, str], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    settings = {**users, "rest.client.certificate.login": "true", "rest.extension.classes": "test.Seen"}
    seen: list[Principal] = []

    class Seen:
        """Tells who the login found, after it has."""

        def register(self, context: extensions.ExtensionContext) -> None:
            def layer(app: ASGIApp) -> ASGIApp:
                async def around(scope: Scope, receive: Receive, send: Send) -> None:
                    await app(scope, receive, send)
                    seen.append(principal_of(scope))

                return around

            context.add_layer(layer)

    install(monkeypatch, {"test.Seen": Seen})
    # The worker that forwards shows its own certificate to the leader.
    with entered(settings, {"delete": None}, certificate="CN=worker-1") as (leader, herder):
        there = {"delete": Elsewhere(f"{leader.base_url}/")}
        with entered(settings, there, certificate="CN=ann,OU=ops" if way == "certificate" else None) as (client, _):
            answer = client.delete("/connectors/a%2Fb?x=%2F", auth=ANN if way == "password" else None)
    assert answer.status_code == 204
    assert [one[0] for one in herder.asked] == ["delete"]
    assert {one.name for one in seen} == {"CN=ann,OU=ops" if way == "certificate" else "ann"}
    assert len(seen) == 2


def test_without_a_key_a_certificate_is_not_forwarded_and_a_password_is(users: dict[str, str]) -> None:
    settings = {**users, "rest.client.certificate.login": "true"}
    with entered(settings, {"delete": None}, key=lambda: None) as (leader, herder):
        there = {"delete": Elsewhere(f"{leader.base_url}/")}
        with entered(settings, there, certificate="CN=ann", key=lambda: None) as (client, _):
            refused = client.delete("/connectors/c")
            assert (refused.status_code, herder.asked) == (503, [])
            assert "session key" in refused.json()["message"]
            assert client.delete("/connectors/c", auth=ANN).status_code == 204


def test_a_principal_that_is_not_signed_is_none(users: dict[str, str]) -> None:
    forged = {"X-Headrace-Principal": "e30=", "X-Headrace-Principal-Signature": "AAAA"}
    with entered(users) as (client, _):
        assert client.get("/connectors", headers=forged).status_code == 403
        assert client.get("/connectors", headers=forged, auth=ANN).status_code == 200


def test_the_leaders_401_is_passed_on(users: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("bob=b\n")
    with entered({"rest.basic.auth.users.file": str(other)}, key=lambda: None) as (leader, _):
        there = {"delete": Elsewhere(f"{leader.base_url}/")}
        with entered(users, there, key=lambda: None) as (client, _):
            answer = client.delete("/connectors/c", auth=ANN)
    assert (answer.status_code, answer.json()) == (401, NO_ACCESS)


# REST extensions.


def test_an_extension_may_log_in(monkeypatch: pytest.MonkeyPatch, users: dict[str, str]) -> None:
    class Login:
        def register(self, context: extensions.ExtensionContext) -> None:
            assert context.settings["my.setting"] == "1"

            def layer(app: ASGIApp) -> ASGIApp:
                async def around(scope: Scope, receive: Receive, send: Send) -> None:
                    if dict(scope["headers"]).get(b"x-key") == b"good":
                        set_principal(scope, Principal("by key"))
                    await app(scope, receive, send)

                return around

            context.add_layer(layer)

    install(monkeypatch, {"test.Login": Login})
    with entered({**users, "rest.extension.classes": "test.Login", "my.setting": "1"}) as (client, _):
        assert client.get("/connectors", headers={"X-Key": "good"}).status_code == 200
        assert client.get("/connectors", headers={"X-Key": "bad"}).status_code == 401
        assert client.get("/connectors", auth=ANN).status_code == 200


def test_what_cannot_protect_refuses_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def register(self, context: extensions.ExtensionContext) -> None:
            raise ValueError("it needs a thing")

    install(monkeypatch, {"test.Broken": Broken})

    def refusal(**settings: str) -> str:
        config = WorkerConfig.standalone({**SETTINGS, **{k.replace("_", "."): v for k, v in settings.items()}})
        with pytest.raises(ConfigError) as refused:
            AuthLayer.of(config.values, config.originals, {})
        return str(refused.value)

    unknown = refusal(rest_extension_classes=f"{APACHES},io.confluent.connect.security.ConnectSecurityExtension")
    assert "No REST extension of this name is installed" in unknown
    assert f"There is {APACHES}, test.Broken" in unknown
    assert "ValueError: it needs a thing" in refusal(rest_extension_classes="test.Broken")
    assert "no JAAS file names one" in refusal(rest_extension_classes="BasicAuthSecurityRestExtension")
    for key in ("java.security.auth.login.config", "rest.bearer.expected.issuer", "rest.bearer.expected.audience"):
        assert f"{key} (= " in refusal(**{key: "x"})
    assert "There is no such file" in refusal(rest_basic_auth_users_file="/nowhere")


# MirrorMaker's process.


@pytest.fixture
def mirror(users: dict[str, str]) -> Iterator[httpx.Client]:
    config = WorkerConfig.standalone({**SETTINGS, **users})
    auth_layer = AuthLayer.of(config.values, config.originals, {})
    flows = Flows(ProcessMetrics())
    server = HttpServer([FREE])
    with RestClient() as client:
        server.start(mirror_app(flows, config.values, client, auth_layer))
        with httpx.Client(base_url=str(server.bound[0]), timeout=60) as http:
            yield http
        server.stop()
    auth_layer.stop()


def test_a_mirrors_process_needs_it_but_for_its_own_processes(mirror: httpx.Client) -> None:
    assert mirror.get("/health").status_code == mirror.get("/metrics").status_code == 401
    assert mirror.get("/metrics", auth=ANN).status_code == 200
    for method, path in (("POST", "/A/B/connectors/c/tasks"), ("PUT", "/A/B/connectors/c/fence")):
        assert mirror.request(method, path, content=b"").status_code == 404  # no such flow, and no login was asked
