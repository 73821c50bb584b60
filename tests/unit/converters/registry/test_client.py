"""The registry's client: its requests, caches, retries and errors, against a scripted server."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from headrace.config.connector.validator import ConnectorValidator
from headrace.config.settings import ConfigError
from headrace.converters.avro.references import standing_alone
from headrace.converters.registry import client as client_module
from headrace.converters.registry import http
from headrace.converters.registry.client import CLIENT_SETTINGS, RegistryError, SchemaRegistry
from headrace.plugins.contracts import DataError, RetriableError
from headrace.plugins.interop.avro.tree import schema_text
from headrace.plugins.interop.discovery import Plugins
from tests.held_ports import held_port
from tests.unit.converters.registry.scripted_registry import scripted, send

INT = '"int"'
QUICK = {"retries.wait.ms": "1", "retries.max.wait.ms": "2"}


def client(url: str, **settings: str) -> SchemaRegistry:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return SchemaRegistry({"schema.registry.url": url, **QUICK, **named}, standing_alone)


def paths(played: Any) -> list[str]:
    return [f"{asked.method} {asked.path}" for asked in played.asked]


def test_a_schema_is_registered_once_in_the_form_of_the_protocol() -> None:
    with scripted((200, {"id": 7, "more": 1})) as played, closing(client(played.url)) as registry:
        assert [registry.register("a/b ü-value", INT) for _ in range(3)] == [7, 7, 7]
    assert paths(played) == ["POST /subjects/a%2Fb%20%C3%BC-value/versions?normalize=false"]
    (asked,) = played.asked
    assert asked.body == {"schema": INT}
    assert asked.headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
    assert asked.headers["Confluent-Accept-Unknown-Properties"] == "true"


def test_the_path_of_the_url_stays_before_that_of_the_request() -> None:
    with scripted((200, {"id": 7})) as played, closing(client(f"{played.url}/apis/ccompat/v7/")) as registry:
        registry.register("s", INT, normalize=True)
    assert paths(played) == ["POST /apis/ccompat/v7/subjects/s/versions?normalize=true"]


def test_each_look_up_has_its_request_and_is_cached() -> None:
    answer = {"id": 3, "version": 2, "schema": INT, "subject": "s"}
    with scripted((200, answer)) as played, closing(client(played.url)) as registry:
        for _ in range(2):
            assert registry.lookup("s", INT) == (3, 2)
            assert registry.version_of("s", INT) == 2
            assert registry.latest("s") == (3, 2, INT)
            assert registry.latest_with("s", {"a b": "c"}) == (3, 2, INT)
            assert registry.schema(3) == INT
            assert registry.schema(3, ":.ctx:s") == INT
            assert registry.by_guid("g") == INT
    assert paths(played) == [
        "POST /subjects/s?normalize=false&deleted=false",
        "POST /subjects/s?normalize=false&deleted=true",
        "GET /subjects/s/versions/latest",
        "GET /subjects/s/metadata?key=a%20b&value=c",
        "GET /schemas/ids/3?fetchMaxId=false",
        "GET /schemas/ids/3?fetchMaxId=false&subject=%3A.ctx%3As",
        "GET /schemas/guids/g",
    ]


def only_asking(url: str) -> SchemaRegistry:
    return SchemaRegistry({"schema.registry.url": url, **QUICK}, standing_alone, only_asks=True)


def test_a_client_that_only_asks_registers_nothing() -> None:
    with scripted((200, {"id": 7, "version": 1})) as played, closing(only_asking(played.url)) as registry:
        assert [registry.register("s", INT) for _ in range(2)] == [7, 7]
        assert registry.is_registered(7)
    assert paths(played) == ["POST /subjects/s?normalize=false&deleted=false"]
    unknown = (404, {"error_code": 40403, "message": "Schema not found"})
    taken = (200, {"is_compatible": True})
    with scripted(unknown, taken, unknown, taken) as played, closing(only_asking(played.url)) as registry:
        first, second = registry.register("s", INT), registry.register("s", '"long"')
        assert (first, second) == (2**32 - 1, 2**32 - 2)
        assert registry.register("s", INT) == first
        assert not registry.is_registered(first)
        assert registry.schema(second) == '"long"'
    ways = ["POST /subjects/s?normalize=false&deleted=false"]
    ways.append("POST /compatibility/subjects/s/versions?verbose=true&normalize=false")
    assert paths(played) == ways * 2
    no_subject = (404, {"error_code": 40401, "message": "Subject not found"})
    with scripted(no_subject, no_subject) as played, closing(only_asking(played.url)) as registry:
        assert not registry.is_registered(registry.register("s", INT))


def test_a_client_that_only_asks_tells_what_would_be_refused() -> None:
    unknown = (404, {"error_code": 40403, "message": "Schema not found"})
    refused = (200, {"is_compatible": False, "messages": ["the field a has no default"]})
    with (
        scripted(unknown, refused) as played,
        closing(only_asking(played.url)) as registry,
        pytest.raises(RegistryError, match="the field a has no default"),
    ):
        registry.register("s", INT)


def test_the_cache_of_a_subject_is_bounded() -> None:
    with scripted((200, {"id": 1})) as played, closing(client(played.url, max_schemas_per_subject="2")) as registry:
        for text in ("1", "2", "3", "3", "1"):
            registry.register("s", text)
        registry.register("t", "3")
    assert [asked.body["schema"] for asked in played.asked] == ["1", "2", "3", "1", "3"]


def test_a_latest_version_is_cached_for_its_time() -> None:
    answer = {"id": 3, "version": 2, "schema": INT}
    with scripted((200, answer)) as played, closing(client(played.url, latest_cache_ttl_sec="0")) as registry:
        registry.latest("s")
        registry.latest("s")
    assert len(played.asked) == 2


def test_an_unknown_id_is_cached_only_if_configured() -> None:
    missing = (404, {"error_code": 40403, "message": "Schema 9 not found"})
    for ttl, requests in (("0", 2), ("60", 1)):
        with scripted(missing) as played, closing(client(played.url, missing_id_cache_ttl_sec=ttl)) as registry:
            for _ in range(2):
                with pytest.raises(RegistryError, match=r"^Schema 9 not found; error code: 40403$"):
                    registry.schema(9)
        assert len(played.asked) == requests


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_retriable_status_is_retried(status: int) -> None:
    passing = (status, {"error_code": 50001, "message": "store"})
    with scripted(passing, (status, b"<html>"), (200, {"id": 7})) as played, closing(client(played.url)) as registry:
        assert registry.register("s", INT) == 7
    assert len(played.asked) == 3


def test_after_the_last_attempt_the_error_is_retriable_and_says_what_where_and_why() -> None:
    with (
        scripted((503, {"message": "leader gone"})) as played,
        closing(client(played.url, max_retries="2")) as registry,
    ):
        with pytest.raises(RetriableError, match=rf"GET /schemas/ids/5\S* at {played.url}.*503: leader gone.*3 att"):
            registry.schema(5)
        assert len(played.asked) == 3


def test_the_nodes_are_tried_in_turn_and_the_one_that_answers_is_kept() -> None:
    gone = f"http://127.0.0.1:{held_port()}"
    with scripted((503, {})) as ill, scripted((200, {"id": 7})) as well:
        with closing(client(f"{gone},{ill.url},{well.url}", max_retries="0")) as registry:
            assert [registry.register("s", text) for text in ("1", "2")] == [7, 7]
        assert (len(ill.asked), len(well.asked)) == (1, 2)


def compressed(handler: BaseHTTPRequestHandler) -> None:
    """Answer with a megabyte of gzip that expands to a gigabyte."""
    assert handler.headers["Accept-Encoding"] == "identity"
    data = gzip.compress(bytes(1 << 20)) * 1_000
    handler.send_response(200)
    handler.send_header("Content-Encoding", "gzip")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    with contextlib.suppress(OSError):  # nobody reads it
        handler.wfile.write(data)


@pytest.mark.parametrize(
    ("status", "body", "error", "told"),
    [
        (422, {"error_code": 42201, "message": "Invalid schema"}, RegistryError, "Invalid schema; error code: 42201"),
        (404, {"error_code": 40401, "message": "Subject 's' not found."}, RegistryError, "40401"),
        (404, {"error_code": 40402, "message": "Version 3 not found."}, RegistryError, "40402"),
        (409, {"error_code": 409, "message": "incompatible"}, RegistryError, "error code: 409"),
        (422, {"error_code": 42205, "message": "read-only"}, ConfigError, "no such change now: 422.*42205.*READWRITE"),
        (401, {"error_code": 401, "message": "Unauthorized"}, ConfigError, "401 to POST .*basic.auth.user.info"),
        (403, b"", ConfigError, "403 to POST .*does not allow it.*may do this"),
        (404, b"<html>nginx", ConfigError, "No schema registry answers there: 404.*Check host, port and path"),
        (307, b"", ConfigError, "redirects"),
        # Answers of servers that are no registry, and of a registry's own framework to an unknown path.
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}, ConfigError, "No schema registry answers there"),
        (404, {"error_code": "40403"}, ConfigError, "No schema registry answers there"),
        (404, {"status": 404, "title": "RESTEASY003210"}, ConfigError, "No schema registry.*RESTEASY.*ccompat/v7"),
        (404, ["40403"], ConfigError, "No schema registry"),
        (422, b"no json", ConfigError, "No schema registry.*HTTP status 422, 'no json'"),
        (422, {"detail": "missing"}, ConfigError, "No schema registry"),
        (409, {"message": "Conflict"}, ConfigError, "No schema registry"),
        (400, {"error_code": 40403}, ConfigError, "No schema registry"),
        (405, b"", ConfigError, "No schema registry"),
        (410, {"error_code": 410}, ConfigError, "No schema registry"),
        (418, {}, ConfigError, "No schema registry"),
        (501, {}, RetriableError, "501"),
        (530, b"a proxy's", RetriableError, "530"),
        (200, {"version": 1}, ConfigError, "an answer has no id: .'version': 1"),
        (200, [], ConfigError, "an answer has no id"),
        (204, b"", ConfigError, "an answer has no id"),
        (200, b"<html>hello", RetriableError, "is not JSON.*hello"),
        (200, b"[" * 100_000, RetriableError, "is not JSON"),
        (200, b"[" + b"[]," * (3 << 20) + b"[]]", RetriableError, "larger than 8 MiB"),
        (200, compressed, RetriableError, "compressed"),
    ],
)
def test_a_refusal_raises_its_kind_of_error_at_once(status: int, body: Any, error: type[Exception], told: str) -> None:
    with scripted((status, body)) as played, closing(client(played.url, max_retries="0")) as registry:
        with pytest.raises(error, match=told):
            registry.register("s", INT)
        assert len(played.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        (404, {"error_code": 40403, "message": "Schema 0 not found."}),
        (200, {"schema": INT}),
        (403, {"error_code": 403, "message": "another login may"}),
        (503, {}),
    ],
)
def test_a_registry_passes_the_check_and_one_that_is_away_does(answer: tuple[int, Any]) -> None:
    with scripted(answer) as played, closing(client(played.url)) as registry:
        registry.check()
    assert paths(played) == ["GET /schemas/ids/0?fetchMaxId=false"], "asked once"


@pytest.mark.parametrize("answer", [(404, {"status": 404}), (200, {}), (200, []), (204, b""), (401, {})])
def test_what_is_no_registry_does_not_pass_the_check(answer: tuple[int, Any]) -> None:
    with scripted(answer) as played, closing(client(played.url)) as registry, pytest.raises(ConfigError) as caught:
        registry.check()
    assert [problem.key for problem in caught.value.problems] == ["schema.registry.url"]


def test_the_check_ends_soon_where_nothing_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_CHECK_S", 0.05)
    released = threading.Event()
    try:
        with scripted((200, lambda _: released.wait(60))) as played, closing(client(played.url)) as registry:
            began = time.monotonic()
            registry.check()
            assert time.monotonic() - began < 30
            released.set()
    finally:
        released.set()


def test_validation_asks_the_registry_and_takes_one_that_is_away() -> None:
    config = {
        "name": "c",
        "connector.class": "FileStreamSink",
        "topics": "t",
        "file": "f",
        "value.converter": "AvroConverter",
    }
    key = "value.converter.schema.registry.url"
    with scripted((404, {"status": 404})) as played:
        away = f"http://127.0.0.1:{held_port()}"
        for url, errors in ((played.url, 1), (away, 0)):
            infos = ConnectorValidator(Plugins.shipped(), None)({**config, key: url}).infos()
            told = {one["value"]["name"]: one["value"]["errors"] for one in infos["configs"]}
            assert (infos["error_count"], len(told[key])) == (errors, errors)
            if errors:
                assert told[key][0].startswith(f"Invalid value {url} for configuration {key}: No schema registry")


def test_a_schema_of_another_kind_is_refused() -> None:
    answer = (200, {"schema": "syntax", "schemaType": "PROTOBUF"})
    with (
        scripted(answer) as played,
        closing(client(played.url)) as registry,
        pytest.raises(DataError, match="PROTOBUF, not"),
    ):
        registry.schema(1)


def test_a_registry_without_guids_is_an_error_of_the_bytes_that_name_one() -> None:
    with (
        scripted((404, b"")) as played,
        closing(client(played.url)) as registry,
        pytest.raises(DataError, match="cannot look up the GUID"),
    ):
        registry.by_guid("0000000f-5078-7878-7878-787878787878")


def test_schemas_of_another_kind_are_sent_and_read_with_it_and_their_references() -> None:
    reference = {"name": "b.proto", "subject": "b", "version": 3}
    answers = [
        (200, {"schema": "A", "schemaType": "PROTOBUF", "references": [reference]}),
        (200, {"schema": "B", "schemaType": "PROTOBUF", "references": [{**reference, "name": "c.proto"}]}),
        (200, {"schema": "C", "schemaType": "PROTOBUF"}),
        (200, {"id": 1, "version": 9}),
        (200, {"id": 2}),
        (200, {"schema": INT}),
    ]

    def joined(text: str, referenced: Sequence[tuple[str, str]]) -> str:
        return " ".join([text, *(f"{name}={found}" for name, found in referenced)])

    with scripted(*answers) as played:
        config = {"schema.registry.url": played.url, **QUICK}
        with closing(SchemaRegistry(config, joined, kind="PROTOBUF")) as registry:
            assert registry.schema(1) == "A b.proto=B c.proto=C"
            assert registry.lookup("s", "A b.proto=B c.proto=C") == (1, 9)
            assert registry.register("s", "D") == 2
            with pytest.raises(DataError, match="is AVRO, not PROTOBUF"):
                registry.schema(3)
    assert played.asked[3].body == {"schema": "A", "schemaType": "PROTOBUF", "references": [reference]}
    assert played.asked[4].body == {"schema": "D", "schemaType": "PROTOBUF"}


RECORD = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "int"},
        {
            "name": "where",
            "type": ["null", {"type": "record", "name": "W", "fields": [{"name": "street", "type": "int"}]}],
        },
    ],
}


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("[TYPE_MISMATCH at /fields/0/type]", r"\(in the schema that was sent /fields/0/type is field 'id'\)"),
        ("{path '/fields/1/type/1/fields/0/type'}", "/fields/1/type/1/fields/0/type is field 'where.street'"),
        ("[gone at /fields/7]", r"^\[gone at /fields/7\]; error code: 40901$"),
        ("incompatible", "^incompatible; error code: 40901$"),
    ],
)
def test_an_incompatible_schema_is_refused_with_its_fields_named(message: str, told: str) -> None:
    with scripted((409, {"error_code": 40901, "message": message})) as played, closing(client(played.url)) as registry:
        with pytest.raises(DataError, match=told):
            registry.register("s", json.dumps(RECORD))
        assert len(played.asked) == 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "shop-1.public.Key",
            r"Avro does not allow the name 'shop-1.public': set scrub.invalid.names=true",
        ),
        ("shop_1.public.Key", "^unparsable; error code: 42201$"),
    ],
)
def test_a_refused_schema_has_the_names_told_that_avro_does_not_allow(name: str, told: str) -> None:
    without_namespace = {"type": "fixed", "name": "F", "size": 1}
    text = schema_text({"type": "record", "name": name, "fields": [{"name": "f", "type": without_namespace}]})
    answer = (422, {"error_code": 42201, "message": "unparsable"})
    with scripted(answer) as played, closing(client(played.url)) as registry, pytest.raises(DataError, match=told):
        registry.register("s", text)


def test_references_are_written_out_and_looked_up_as_registered() -> None:
    reference = {"name": "a.b.Inner", "subject": "inner", "version": 3}
    outer = '{"type":"record","name":"O","fields":[{"name":"x","type":"a.b.Inner"}]}'
    inner = '{"type":"fixed","name":"Inner","namespace":"a.b","size":4}'
    answers = [
        (200, {"schema": outer, "references": [reference]}),
        (200, {"schema": inner, "version": 3}),
        (200, {"id": 1, "version": 9}),
    ]
    with scripted(*answers) as played, closing(client(played.url)) as registry:
        text = registry.schema(1)
        assert json.loads(text)["fields"][0]["type"] == json.loads(inner)
        assert registry.version_of("s", text) == 9
    assert paths(played)[1] == "GET /subjects/inner/versions/3?deleted=true"
    assert played.asked[2].body == {"schema": outer, "references": [reference]}


def test_circular_references_end() -> None:
    itself = {"schema": '"O"', "references": [{"name": "O", "subject": "s", "version": 1}]}
    with scripted((200, itself)) as played, closing(client(played.url)) as registry:
        assert registry.schema(1) == '"O"'
    assert len(played.asked) == 2


def test_references_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.converters.registry.client._LONGEST_REFERENCED", 4 << 20)
    many = [{"name": f"N{number}", "subject": "s", "version": number} for number in range(1, 20)]
    answers = [(200, {"schema": "O", "references": many}), (200, {"schema": "x" * (1 << 20)})]
    told = pytest.raises(DataError, match="references are longer than 4 Mi characters")
    with scripted(*answers) as played, closing(client(played.url)) as registry, told:
        registry.schema(1)
    assert len(played.asked) == 6


def stall(until: threading.Event) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: until.wait(60) and None


def test_a_registry_that_never_answers_costs_no_more_than_the_time_out() -> None:
    done = threading.Event()
    with scripted((200, stall(done))) as played:
        registry = client(played.url, http_read_timeout_ms="50", max_retries="1")
        with closing(registry), pytest.raises(RetriableError, match=r"ReadTimeout.*2 attempts"):
            registry.schema(1)
        done.set()
    assert len(played.asked) == 2


def test_an_answer_that_drips_is_given_up() -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b" ")
                time.sleep(0.005)
        except OSError:
            pass  # the client went away, as it should

    with scripted((200, drip)) as played:
        registry = client(played.url, http_read_timeout_ms="100", max_retries="0")
        with closing(registry), pytest.raises(RetriableError, match=r"longer than http\.read\.timeout\.ms"):
            registry.schema(1)


def test_closing_ends_the_wait_for_the_next_attempt() -> None:
    asked = threading.Event()

    def refuse(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 503, b"{}")
        asked.set()

    with scripted((503, refuse)) as played:
        registry = client(played.url, retries_wait_ms="600000", retries_max_wait_ms="600000")
        failed: list[BaseException] = []

        def ask() -> None:
            try:
                registry.schema(1)
            except RetriableError as error:
                failed.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert asked.wait(60)
        registry.close()
        thread.join(60)
        assert "it was closed" in str(failed[0])


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="pä:ss";'


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("login", "settings", "sent"),
    [
        ("", {}, None),
        ("me:p%40ss@", {}, basic("me:p@ss")),
        ("me:p@", {"basic.auth.credentials.source": "URL"}, basic("me:p")),
        ("no:no@", {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "me:pä"}, basic("me:pä")),
        (
            "",
            {"basic.auth.credentials.source": "USER_INFO", "schema.registry.basic.auth.user.info": "me:x"},
            basic("me:x"),
        ),
        ("", {"basic.auth.credentials.source": "SASL_INHERIT", "sasl.jaas.config": JAAS}, basic("me:pä:ss")),
        ("", {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "tok"}, "Bearer tok"),
        ("", {"bearer.auth.token": "tok"}, "Bearer tok"),
    ],
)
def test_the_configured_login_is_sent(login: str, settings: Mapping[str, str], sent: str | None) -> None:
    with scripted((200, {"id": 7})) as played:
        url = played.url.replace("://", f"://{login}")
        with closing(
            SchemaRegistry({"schema.registry.url": url, **settings, "request.header.X-More": "yes"}, standing_alone)
        ) as registry:
            registry.register("s", INT)
    (asked,) = played.asked
    assert asked.headers.get("Authorization") == sent
    assert asked.headers["X-More"] == "yes"


def oauth(url: str) -> dict[str, str]:
    return {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": f"{url}/token",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "s3cret",
        "bearer.auth.scope": "sr",
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }


def test_a_token_is_fetched_once_and_again_when_it_ends() -> None:
    for lifetime_s, tokens in ((3600, 1), (0, 2)):
        given = (200, {"access_token": "tok", "expires_in": lifetime_s})
        with scripted(given) as issuer, scripted((200, {"id": 7})) as played:
            registry = SchemaRegistry({"schema.registry.url": played.url, **oauth(issuer.url)}, standing_alone)
            registry.register("s", "1")
            registry.register("s", "2")
            registry.close()
        assert len(issuer.asked) == tokens
        assert issuer.asked[0].body == "grant_type=client_credentials&scope=sr"
        assert issuer.asked[0].headers["Authorization"] == basic("me:s3cret")
        assert played.asked[1].headers["Authorization"] == "Bearer tok"
        assert played.asked[1].headers["target-sr-cluster"] == "lsrc-1"
        assert played.asked[1].headers["Confluent-Identity-Pool-Id"] == "pool-1"


def test_the_issuer_gets_a_form_and_no_header_of_the_registry() -> None:
    with scripted((200, {"access_token": "tok"})) as issuer, scripted((200, {"id": 7})) as played:
        settings = {"request.header.X-Key": "s3cret", **oauth(issuer.url)}
        with closing(SchemaRegistry({"schema.registry.url": played.url, **settings}, standing_alone)) as registry:
            registry.register("s", INT)
    headers = {name.lower(): value for name, value in issuer.asked[0].headers.items()}
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert not {"x-key", "confluent-accept-unknown-properties", "target-sr-cluster"} & headers.keys()
    assert "schemaregistry" not in str(headers)
    assert played.asked[0].headers["X-Key"] == "s3cret"


def test_an_issuers_refusal_is_a_config_error_and_its_failure_a_retriable_one() -> None:
    kinds: list[tuple[int, type[Exception], int]] = [(401, ConfigError, 1), (503, RetriableError, 3)]
    for status, kind, requests in kinds:
        with scripted((status, {"error": "s3cret"})) as issuer:
            settings = {"schema.registry.url": "http://127.0.0.1:9", "max.retries": "2", **QUICK, **oauth(issuer.url)}
            registry = SchemaRegistry(settings, standing_alone)
            with closing(registry), pytest.raises(kind) as caught:
                registry.schema(1)
        assert str(status) in str(caught.value)
        assert "s3cret" not in str(caught.value)
        assert len(issuer.asked) == requests


def test_an_issuer_is_retried_and_timed_out_as_the_registry_is() -> None:
    answers = [(503, {}), (200, {"access_token": "tok"})]
    with scripted(*answers) as issuer, scripted((200, {"id": 7})) as played:
        registry = SchemaRegistry({"schema.registry.url": played.url, **QUICK, **oauth(issuer.url)}, standing_alone)
        with closing(registry):
            assert registry.register("s", INT) == 7
    done = threading.Event()
    with scripted((200, stall(done))) as issuer:
        quick = {"http.read.timeout.ms": "50", "max.retries": "0"}
        registry = SchemaRegistry(
            {"schema.registry.url": "http://127.0.0.1:9", **quick, **oauth(issuer.url)}, standing_alone
        )
        with closing(registry), pytest.raises(RetriableError, match=r"the token endpoint .*ReadTimeout"):
            registry.schema(1)
        done.set()


def test_a_look_up_ends_in_time_however_many_retries_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LONGEST_S", 0.2)
    with scripted((503, {})) as played:
        registry = client(played.url, max_retries="1000000")
        with closing(registry), pytest.raises(RetriableError, match=r"503|look-up's time|took longer"):
            registry.schema(1)
    assert 1 < len(played.asked) < 1_000_000


def test_pauses_do_not_double_without_end() -> None:
    with scripted((503, {})) as played:
        registry = client(played.url, retries_wait_ms="1", retries_max_wait_ms="0", max_retries="1100")
        with closing(registry), pytest.raises(RetriableError, match="1101 attempts"):
            registry.schema(1)


def test_a_secret_is_in_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    headers = {"request.header.X-Key": "s3cret"}
    for status in (401, 404, 422, 503):
        with scripted((status, b"")) as played:
            url = played.url.replace("://", "://me:s3cret@")
            registry = SchemaRegistry({"schema.registry.url": url, **QUICK, **headers}, standing_alone)
            with closing(registry), pytest.raises(Exception, match=str(status)) as caught:
                registry.schema(1)
            assert played.asked[0].headers["Authorization"] == basic("me:s3cret")
            assert "s3cret" not in str(caught.value)
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, 'Missing required configuration "schema.registry.url"'),
        ({"schema.registry.url": ""}, "At least one URL"),
        ({"schema.registry.url": "mock://s3cret@x"}, "memory.*headrace registry start"),
        ({"schema.registry.url": "localhost:8081"}, "It must be http://host:port"),
        ({"schema.registry.url": "http://me:s3cret/x@host"}, "cannot be read as a URL"),
        ({"schema.registry.url": "http://ok,ftp://me:s3cret@host"}, "It must be http://host:port"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "basic.auth.user.info.*must be provided"),
        ({"basic.auth.credentials.source": "FILE"}, "Set it to URL, USER_INFO or SASL_INHERIT"),
        ({"basic.auth.credentials.source": "SASL_INHERIT"}, "sasl.jaas.config.*SASL_INHERIT needs it"),
        ({"basic.auth.credentials.source": "SASL_INHERIT", "sasl.jaas.config": "a.B required;"}, "has no username"),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN"}, "bearer.auth.token.*must be provided"),
        ({"bearer.auth.credentials.source": "CUSTOM"}, "is not served"),
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, "3 problem.*client.secret"),
        (
            {"basic.auth.credentials.source": "URL", "bearer.auth.credentials.source": "STATIC_TOKEN"},
            "Only one of 'basic.auth.credentials.source' and 'bearer.auth.credentials.source' may be specified",
        ),
        ({"request.header.X": "s3cret\r\nY: 1"}, "request.header.X.*not an HTTP header"),
        ({"max.retries": "-1"}, "max.retries.*at least 0"),
        ({"schema.registry.url": "http://me:s3cret@host/path?token=s3cret"}, "must end with host, port and path"),
        ({"schema.registry.url": "http://me:x#s3cret@host"}, "write . as %3F and # as %23"),
        ({"schema.registry.url": "http://host/#s3cret"}, "must end with host, port and path"),
        ({"proxy.host": "proxy"}, "proxy.port.*needs host and port"),
        ({"schema.registry.ssl.enabled.protocols": "TLSv1.2,TLSv9"}, "TLSv9.*not known.*Use TLSv1.2 and TLSv1.3"),
    ],
)
def test_unsupported_settings_are_refused_before_any_request(settings: dict[str, str], told: str) -> None:
    config = settings if not settings or "schema.registry.url" in settings else {"schema.registry.url": "http://h"}
    with pytest.raises(ConfigError, match=rf"(?s){told}") as caught:
        SchemaRegistry({**config, **settings}, standing_alone)
    assert "s3cret" not in str(caught.value)


def test_the_settings_validate_without_a_client() -> None:
    (problem,) = CLIENT_SETTINGS.problems({"schema.registry.url": "http://me:s3cret@/"})
    assert "s3cret" not in str(problem)
    assert CLIENT_SETTINGS.parse({"schema.registry.url": "http://a, http://b"})["schema.registry.url"] == [
        "http://a",
        "http://b",
    ]


def test_only_the_configured_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with scripted((200, {"id": 7})) as proxy:
        host, port = proxy.url.removeprefix("http://").split(":")
        settings = {"schema.registry.url": "http://registry.test:1234", "proxy.host": host, "proxy.port": port}
        with closing(SchemaRegistry(settings, standing_alone)) as registry:
            assert registry.register("s", INT) == 7
    assert paths(proxy) == ["POST http://registry.test:1234/subjects/s/versions?normalize=false"]


def test_requests_go_to_allowed_hosts_only() -> None:
    with scripted((200, {"id": 1})) as played:
        for url in (played.url, played.url.replace("127.0.0.1", "localhost")):
            config = {"schema.registry.url": url, **QUICK}
            refusing = {"connector.allowed.hosts": ["*.example.com", "10.0.0.0/8"]}
            with closing(SchemaRegistry(config, standing_alone, refusing)) as registry:
                with pytest.raises(ConfigError, match=r"connector\.allowed\.hosts") as refused:
                    registry.register("s", INT)
                assert refused.value.problems[0].key == "schema.registry.url"
        assert not played.asked
        with closing(SchemaRegistry(config, standing_alone, {"connector.allowed.hosts": ["localhost"]})) as registry:
            assert registry.register("s", INT) == 1


def test_the_token_endpoint_is_an_allowed_host_too() -> None:
    with scripted((200, {"id": 1})) as played, scripted((200, {"access_token": "t"})) as issuer:
        place = issuer.url.replace("127.0.0.1", "127.0.0.2")
        config = {"schema.registry.url": played.url, **QUICK, **oauth(place)}
        with closing(SchemaRegistry(config, standing_alone, {"connector.allowed.hosts": ["127.0.0.1"]})) as registry:
            with pytest.raises(ConfigError, match=r"127\.0\.0\.2") as refused:
                registry.register("s", INT)
            assert refused.value.problems[0].key == "bearer.auth.issuer.endpoint.url"
        assert not issuer.asked
        assert not played.asked
