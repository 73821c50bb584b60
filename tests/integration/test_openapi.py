"""schemathesis over the OpenAPI document of a worker: whatever it is sent, it answers in time and never with a 500.

With logins, every endpoint answers 401 to a client without one, but for those that judge a signature.

The worker has its real herder, plugins and validation; its tasks run in name only, so that thousands of requests take
seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from headrace.worker.storage.signing import SessionKey, verify
from tests.unit.rest.conftest import Worker

pytestmark = pytest.mark.long

LIMITS: Final = settings(max_examples=15, suppress_health_check=list(HealthCheck))
FEW: Final = settings(LIMITS, max_examples=3)
ANSWER_SECONDS: Final = 60
KNOWN: Final = {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}
ANN: Final = httpx.BasicAuth("ann", "secret")
WRONG: Final = httpx.BasicAuth("ann", "wrong")
CHECKS: Final = [not_a_server_error, content_type_conformance, response_schema_conformance]


@contextmanager
def running(settings: dict[str, str]) -> Iterator[Worker]:
    """A worker that only says it drains, and that judges the signatures of internal requests as in a cluster."""
    level = logging.getLogger().level
    one = Worker(settings)
    key = SessionKey.generate()
    herder: Any = one.herder
    herder.put_task_configs = lambda name, configs, request: verify(request, key)
    herder.fence_zombies = lambda name, request: verify(request, key)
    herder.drain = lambda: None
    try:
        yield one
    finally:
        one.stop()
        logging.getLogger().setLevel(level)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """A worker with default settings."""
    with running({}) as one:
        yield one


@pytest.mark.parametrize(
    "path",
    [
        pytest.param({}, id="any", marks=pytest.mark.soak),
        pytest.param({"name": "known", "task": 0, "plugin": "FileStreamSource"}, id="known"),
    ],
)
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
def test_no_request_ends_in_a_500_or_is_not_answered(
    worker: Worker, mode: schemathesis.GenerationMode, path: dict[str, Any]
) -> None:
    document = schemathesis.openapi.from_url(f"{worker.url}/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) > 30
    for operation in operations:
        names = [parameter.name for parameter in operation.path_parameters]
        given_path = {name: path[name] for name in names if name in path}
        if mode is schemathesis.GenerationMode.NEGATIVE and not (operation.query or operation.body):
            continue  # any text is a name: there is nothing to get wrong
        worker.client.put("/connectors/known/config", json=KNOWN).raise_for_status()
        cases = operation.as_strategy(generation_mode=mode, path_parameters=given_path or None)
        LIMITS(given(case=cases)(_answered))()


def _answered(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS, timeout=ANSWER_SECONDS)


def test_the_worker_is_as_well_as_before(worker: Worker) -> None:
    assert httpx.get(f"{worker.url}/connectors", timeout=ANSWER_SECONDS).status_code == 200
    assert httpx.get(f"{worker.url}/health", timeout=ANSWER_SECONDS).json()["status"] == "healthy"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker with a login."""
    users = tmp_path_factory.mktemp("login") / "users"
    users.write_text("ann=secret\n")
    with running({"rest.basic.auth.users.file": str(users)}) as one:
        one.client.auth = ANN
        yield one


def wants_login(case: schemathesis.Case) -> bool:
    """True if a request needs a login: requests among workers have a signature instead."""
    return not (case.operation.path.endswith(("/tasks", "/fence")) and case.method in ("POST", "PUT"))


@pytest.mark.parametrize("login", [None, WRONG, ANN], ids=["without", "wrong", "right"])
def test_no_endpoint_forgets_the_login(guarded: Worker, login: httpx.BasicAuth | None) -> None:
    url = f"{guarded.url}/openapi.json"
    document = schemathesis.openapi.from_url(url, headers={"Authorization": ANN._auth_header})
    headers = {} if login is None else {"Authorization": login._auth_header}
    asked = 0

    def answered(case: schemathesis.Case) -> None:
        answer = case.call(headers=headers, timeout=ANSWER_SECONDS)
        case.validate_response(answer, checks=CHECKS)
        if login is ANN or not wants_login(case):
            assert answer.status_code != 401
        else:
            assert (answer.status_code, answer.json()["message"]) == (401, "User cannot access the resource.")

    for operation in (found.ok() for found in document.get_all_operations()):
        guarded.client.put("/connectors/known/config", json=KNOWN).raise_for_status()
        FEW(given(case=operation.as_strategy())(answered))()
        asked += 1
    assert asked > 30
