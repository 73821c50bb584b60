"""schemathesis asks a worker for what the requester may not do: no config is shown, nothing changes, none is a 500."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from headrace.worker.storage.signing import SessionKey, verify
from tests.unit.rest.conftest import Worker
from tests.unit.rest.scripted import Named, serving

pytestmark = pytest.mark.long

LIMITS: Final = settings(max_examples=5, suppress_health_check=list(HealthCheck))
CHECKS: Final = [not_a_server_error, content_type_conformance, response_schema_conformance]
UNSEEN: Final = "a-topic-that-nobody-may-see"
KNOWN: Final = {"connector.class": "FileStreamSource", "file": f"/{UNSEEN}/f", "topic": UNSEEN}
PATH: Final[dict[str, Any]] = {"name": "known", "task": 0, "plugin": "FileStreamSource"}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """A worker whose failed task quotes its config, and that judges signatures as in a cluster."""
    one = Worker({})
    key = SessionKey.generate()
    herder: Any = one.herder
    herder.put_task_configs = lambda name, configs, request: verify(request, key)
    herder.fence_zombies = lambda name, request: verify(request, key)
    one.client.put("/connectors/known/config", json=KNOWN).raise_for_status()
    yield one
    one.stop()


@pytest.fixture(scope="module")
def viewer(worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The same worker on a server where everybody may view, and no more."""
    file: Path = tmp_path_factory.mktemp("rights") / "rights.toml"
    file.write_text('[[rules]]\nwho = ["*"]\nconnectors = ["*"]\nrights = ["view"]\n')
    with serving(worker.herder, {"rest.rights.file": str(file)}, forwards=False, around=Named) as client:
        yield client


def test_who_may_view_is_shown_no_config_and_changes_nothing(worker: Worker, viewer: httpx.Client) -> None:
    before = worker.client.get("/connectors?expand=info&expand=status").json()
    assert UNSEEN in str(before["known"]["info"])
    assert UNSEEN in str(before["known"]["status"])

    def answered(case: schemathesis.Case) -> None:
        answer = case.call(timeout=60)
        assert UNSEEN not in answer.text, f"{case.method} {case.path} shows the config"
        if case.method not in ("GET", "HEAD"):
            assert answer.status_code >= 400
        case.validate_response(answer, checks=CHECKS)

    document = schemathesis.openapi.from_url(f"{viewer.base_url}/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) > 30
    for operation in operations:
        path = {one.name: PATH[one.name] for one in operation.path_parameters if one.name in PATH}
        LIMITS(given(case=operation.as_strategy(path_parameters=path or None))(answered))()
    assert worker.client.get("/connectors?expand=info&expand=status").json() == before
