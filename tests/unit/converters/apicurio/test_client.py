"""The client of Apicurio's own API: its requests in v2 and v3, references and errors, against a scripted server."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.converters.apicurio.client import Artifact, CoreClient, CoreClientV2, CoreClientV3
from headrace.converters.registry.http import RegistryError
from headrace.plugins.contracts import DataError, RetriableError
from tests.unit.converters.registry.scripted_registry import scripted

ORDERS = Artifact("shop", "orders-value", "KCONNECT", "application/json")
META = {"globalId": 7, "contentId": 3, "version": "1"}
IDS = {"globalIds": 7, "contentIds": 3}
TEXT = '{"type":"int32"}'


def client(kind: type[CoreClient], url: str) -> CoreClient:
    return kind({"schema.registry.url": url, "max.retries": "0", "retries.wait.ms": "1"}, {})


def paths(played: Any) -> list[str]:
    return [f"{asked.method} {asked.path}" for asked in played.asked]


def test_v3_registers_looks_up_and_asks() -> None:
    answers = [{"artifact": {}, "version": META}, {"versions": [{**META, "state": "DISABLED"}, META]}, META, META]
    with (
        scripted(*((200, answer) for answer in [*answers, answers[0]])) as played,
        closing(client(CoreClientV3, played.url)) as made,
    ):
        assert made.register(ORDERS, TEXT, None, "FAIL", canonical=True).ids == IDS
        assert made.find(ORDERS, TEXT, canonical=False).ids == IDS
        assert made.version(ORDERS, None).ids == IDS
        assert made.version(ORDERS, "2").ids == IDS
        made.would_take(ORDERS, TEXT, "CREATE_VERSION")
    assert paths(played) == [
        "POST /groups/shop/artifacts?ifExists=FAIL&canonical=true",
        "POST /search/versions?groupId=shop&artifactId=orders-value&artifactType=KCONNECT&canonical=false"
        "&orderby=globalId&order=desc&limit=100",
        "GET /groups/shop/artifacts/orders-value/versions/branch=latest",
        "GET /groups/shop/artifacts/orders-value/versions/2",
        "POST /groups/shop/artifacts?ifExists=CREATE_VERSION&dryRun=true",
    ]
    content = {"content": TEXT, "contentType": "application/json", "references": []}
    assert played.asked[0].body == {
        "artifactId": "orders-value",
        "artifactType": "KCONNECT",
        "firstVersion": {"content": content},
    }


def test_v2_registers_looks_up_and_asks() -> None:
    with (
        scripted((200, META), (200, META), (200, META), (200, META), (204, b"")) as played,
        closing(client(CoreClientV2, played.url)) as made,
    ):
        assert made.register(ORDERS, TEXT, "2", "FIND_OR_CREATE_VERSION", canonical=False).ids == IDS
        assert made.find(ORDERS, TEXT, canonical=True).ids == IDS
        assert made.version(ORDERS, None).ids == IDS
        assert made.version(ORDERS, "2").ids == IDS
        made.would_take(ORDERS, TEXT, "CREATE_VERSION")
    assert paths(played) == [
        "POST /groups/shop/artifacts?ifExists=RETURN_OR_UPDATE&canonical=false",
        "POST /groups/shop/artifacts/orders-value/meta?canonical=true",
        "GET /groups/shop/artifacts/orders-value/versions/latest/meta",
        "GET /groups/shop/artifacts/orders-value/versions/2/meta",
        "PUT /groups/shop/artifacts/orders-value/test",
    ]
    headers = played.asked[0].headers
    named = {name: headers[f"X-Registry-{name}"] for name in ("ArtifactId", "ArtifactType", "Version")}
    assert named == {"ArtifactId": "orders-value", "ArtifactType": "KCONNECT", "Version": "2"}
    assert played.asked[0].body == {"content": TEXT, "references": []}


def test_a_new_artifact_of_v2_has_no_rules_to_ask() -> None:
    answer = (404, problem("ArtifactNotFoundException"))
    with scripted(answer) as played, closing(client(CoreClientV2, played.url)) as made:
        made.would_take(ORDERS, TEXT, "FAIL")


@pytest.mark.parametrize(("kind", "after"), [(CoreClientV3, "/content"), (CoreClientV2, "")])
def test_a_schema_comes_with_those_that_it_refers_to(kind: type[CoreClient], after: str) -> None:
    inner = {"name": "b.proto", "groupId": None, "artifactId": "b/ü", "version": "1"}
    answers: list[tuple[int, Any]] = [(200, b"import b;"), (200, [inner]), (200, b"message B {}"), (200, [])]
    with scripted(*answers) as played, closing(client(kind, played.url)) as made:
        assert made.content("globalIds", 7) == ("import b;", [("b.proto", "message B {}")])
    version = "/groups/default/artifacts/b%2F%C3%BC/versions/1"
    assert paths(played) == [
        "GET /ids/globalIds/7",
        "GET /ids/globalIds/7/references",
        f"GET {version}{after}",
        f"GET {version}/references",
    ]


def test_references_in_a_ring_are_read_once() -> None:
    ring = [{"name": "a", "artifactId": "a", "version": "1"}]
    answers: list[tuple[int, Any]] = [(200, b"x"), (200, ring), (200, b"y"), (200, ring)]
    with scripted(*answers) as played, closing(client(CoreClientV3, played.url)) as made:
        assert made.content("contentIds", 1) == ("x", [("a", "y")])
    assert len(played.asked) == 4


def problem(name: str, status: int = 404) -> dict[str, Any]:
    return {"status": status, "name": name, "title": "it says why", "detail": name}


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (404, "ContentNotFoundException"),
        (404, "VersionNotFoundException"),
        (409, "ArtifactAlreadyExistsException"),
        (400, "RuleViolationException"),
        (400, "InvalidContentException"),
    ],
)
def test_a_refusal_is_about_the_record(status: int, name: str) -> None:
    with scripted((status, problem(name, status))) as played, closing(client(CoreClientV3, played.url)) as made:
        with pytest.raises(RegistryError, match="it says why") as refused:
            made.version(ORDERS, None)
        assert refused.value.status == status


@pytest.mark.parametrize(
    ("status", "body", "remedy"),
    [
        (404, problem("NotFoundException"), "apis/registry/v3"),
        (404, b"<html>", "apis/registry/v3"),
        (409, problem("ReadOnlyStorageException", 409), "auto-register=false"),
        (401, problem("NotAuthorizedException", 401), "apicurio.registry.auth"),
        (403, problem("ForbiddenException", 403), "apicurio.registry.auth"),
        (302, b"", "Name the registry's own URL"),
        (200, {"id": 7}, "apis/registry/v3"),
        (200, [], "apis/registry/v3"),
    ],
)
def test_other_answers_are_faults_of_the_config(status: int, body: Any, remedy: str) -> None:
    with scripted((status, body)) as played, closing(client(CoreClientV3, played.url)) as made:
        with pytest.raises(ConfigError, match=remedy) as refused:
            made.version(ORDERS, None)
        assert "apicurio.registry.url" in str(refused.value)


def test_a_registry_that_is_away_is_asked_again() -> None:
    with scripted((503, b"")) as played, closing(client(CoreClientV3, played.url)) as made:
        with pytest.raises(RetriableError, match=r"check apicurio\.registry\.url"):
            made.content("contentIds", 1)
        made.check()


@pytest.mark.parametrize(
    ("answer", "error", "why"), [(b"\xff", DataError, "UTF-8"), ({"references": 1}, ConfigError, "no list")]
)
def test_a_text_that_is_none(answer: Any, error: type[Exception], why: str) -> None:
    with (
        scripted((200, answer)) as played,
        closing(client(CoreClientV3, played.url)) as made,
        pytest.raises(error, match=why),
    ):
        made.content("contentIds", 1)


def test_the_check_finds_out_what_is_no_registry() -> None:
    found = (404, problem("ContentNotFoundException"))
    with scripted(found) as played, closing(client(CoreClientV3, played.url)) as made:
        made.check()
    for answer in ((404, problem("NotFoundException")), (200, {"hello": 1})):
        with (
            scripted(answer) as played,
            closing(client(CoreClientV3, played.url)) as made,
            pytest.raises(ConfigError, match="No schema registry"),
        ):
            made.check()
