"""The HTTP sinks without a worker: the kit, batches, retries, logins, bounds; rows are as the expressions make them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.http.attempts import Statuses
from headrace.connectors.http.sink import task as task_module
from headrace.connectors.http.sink.connector import AivenHttpSinkConnector, ConfluentHttpSinkConnector
from headrace.connectors.http.sink.reports import TextFormat
from headrace.plugins.contracts import Connector, TopicPartition
from headrace.plugins.errors import LoginRefused, RecordsFailed, RetriableError
from headrace.plugins.extensions import Effect
from headrace.plugins.interop.http.client import HttpAnswer, retry_after_s
from headrace.plugins.testkit import (
    HttpOutside,
    PreviewedSinkContract,
    Request,
    SinkContract,
    SinkDrive,
    SinkFaultsContract,
    SinkRig,
)
from tests.integration.partitions import messages
from tests.mock_cluster import MockCluster
from tests.unit.converters.registry.scripted_registry import Identity, ScriptedRegistry, identity, scripted, send

CONFLUENT = "io.confluent.connect.http.HttpSinkConnector"


class Store(HttpOutside):
    """Keeps the bodies that it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []
        self.requests: list[Request] = []

    def answer(self, request: Request) -> Any:
        text = request.body.decode()
        if text in self.refused:
            return 422, "refused"
        self.requests.append(request)
        self.kept.append(text)
        return {}


def row(
    value: str | None,
    offset: int,
    *,
    key: str | None = None,
    url: str,
    batch: str = "",
    partition: int = 0,
    fault: str | None = None,
) -> dict[str, Any]:
    return {
        "topic": "t",
        "partition": partition,
        "offset": offset,
        "timestamp": 1,
        "key": key,
        "url": url,
        "batch": batch,
        "is_null": value is None,
        "body": None if value is None else value.encode(),
        "fault": fault,
    }


ROWS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.string()),
        ("url", pa.string()),
        ("batch", pa.string()),
        ("is_null", pa.bool_()),
        ("body", pa.binary()),
        ("fault", pa.string()),
    ]
)


class HttpRig(SinkRig):
    many = 2_000

    def __init__(self) -> None:
        self.store = self.outside = Store()
        self._offset = 0

    def connector(self) -> Connector:
        return ConfluentHttpSinkConnector()

    def config(self) -> dict[str, str]:
        return {"connector.class": CONFLUENT, "http.api.url": f"{self.store.url}/rows", "max.retries": "0"}

    def contents(self) -> list[str]:
        return list(self.store.kept)

    def rows(self, values: Sequence[Any]) -> pa.RecordBatch:
        self._offset += len(values)
        first = self._offset - len(values)
        made = [row(value, first + number, url=f"{self.store.url}/rows") for number, value in enumerate(values)]
        return pa.RecordBatch.from_pylist(made, schema=ROWS)

    def previewed(self, effects: Sequence[Effect]) -> list[Any]:
        return [effect.detail["body"] for effect in effects]


class TestConfluentSink(SinkContract, SinkFaultsContract, PreviewedSinkContract):
    @pytest.fixture
    def rig(self) -> Iterator[SinkRig]:
        rig = HttpRig()
        yield rig
        rig.outside.close()


class AivenRig(HttpRig):
    def connector(self) -> Connector:
        return AivenHttpSinkConnector()

    def config(self) -> dict[str, str]:
        return {"http.url": f"{self.store.url}/rows", "http.authorization.type": "none", "max.retries": "0"}


class TestAivenSink(SinkContract):
    @pytest.fixture
    def rig(self) -> Iterator[SinkRig]:
        rig = AivenRig()
        yield rig
        rig.outside.close()


# -- one task against a scripted server --------------------------------------------------------------------------------


class _Rig(HttpRig):
    """A task with further settings, against a server of the test."""

    def __init__(self, url: str, connector: Any = ConfluentHttpSinkConnector, **settings: str) -> None:
        super().__init__()
        self.outside.close()
        self.url, self._connector = url, connector
        self._settings = {key.replace("_", "."): value for key, value in settings.items()}

    def connector(self) -> Connector:
        return self._connector()

    def config(self) -> dict[str, str]:
        own = {"http.url": self.url, "http.authorization.type": "none"}
        if self._connector is ConfluentHttpSinkConnector:
            own = {"http.api.url": self.url, "retry.backoff.ms": "1", "connector.class": CONFLUENT}
        return {"name": "c", **own, **self._settings}


def write(rig: SinkRig, *rows: Mapping[str, Any]) -> SinkDrive:
    drive = SinkDrive(rig)
    try:
        writer = drive.writer()
        writer.write(pa.RecordBatch.from_pylist(list(rows), schema=ROWS))
        drive.task.commit([writer.finish()])
    finally:
        drive.end()
    return drive


def bodies(played: ScriptedRegistry) -> list[Any]:
    return [one.body for one in played.asked]


def test_records_of_a_batch_share_a_request_up_to_its_size() -> None:
    with scripted((200, {})) as played:
        rows = [row(f"{n}", n, url=played.url) for n in range(5)]
        write(_Rig(played.url, batch_max_size="2", batch_prefix="<", batch_separator=" | ", batch_suffix=">\n"), *rows)
        assert bodies(played) == ["<0 | 1>\n", "<2 | 3>\n", "<4>\n"]


def test_the_misspelt_separator_is_taken() -> None:
    with scripted((200, {})) as played:
        rows = [row(f"{n}", n, url=played.url) for n in range(2)]
        write(_Rig(played.url, batch_max_size="2", batch_seperator=";"), *rows)
        assert bodies(played) == ["0;1"]


def test_json_is_an_array_also_of_one_record() -> None:
    with scripted((200, {})) as played:
        write(_Rig(played.url, request_body_format="json"), row('{"a":1}', 0, url=played.url))
        assert bodies(played) == ['[{"a":1}]']
        assert played.asked[0].headers["Content-Type"] == "application/json"


def test_json_without_an_array_is_joined() -> None:
    with scripted((200, {})) as played:
        rig = _Rig(played.url, request_body_format="json", batch_json_as_array="false")
        write(rig, row('"a"', 0, url=played.url))
        assert bodies(played) == ['"a"']


def test_records_of_other_batches_and_urls_are_sent_apart_and_in_order() -> None:
    with scripted((200, {})) as played:
        rows = [
            row("a1", 0, url=f"{played.url}/a", batch="a"),
            row("b1", 1, url=f"{played.url}/b", batch="b"),
            row("a2", 2, url=f"{played.url}/a", batch="a"),
            row("a3", 3, url=f"{played.url}/other", batch="a"),
        ]
        write(_Rig(played.url, batch_max_size="9", batch_key_pattern="${key}"), *rows)
        sent = [(one.path, one.body) for one in played.asked]
        assert sorted(sent) == [("/a", "a1,a2"), ("/b", "b1"), ("/other", "a3")]
        assert sent.index(("/a", "a1,a2")) < sent.index(("/other", "a3"))


def test_a_delete_goes_behind_the_records_before_it() -> None:
    with scripted((200, {})) as played:
        rows = [row(value, n, key="k", url=f"{played.url}/k") for n, value in enumerate(["1", "2", None, "3"])]
        write(_Rig(played.url + "/${key}", batch_max_size="9", behavior_on_null_values="delete"), *rows)
        assert [(one.method, one.body) for one in played.asked] == [("POST", "1,2"), ("DELETE", ""), ("POST", "3")]
        assert "Content-Type" not in played.asked[1].headers


@pytest.mark.parametrize("kind", ["ignore", "log"])
def test_a_null_is_passed_over_and_counted(kind: str) -> None:
    with scripted((200, {})) as played:
        rows = [row(value, n, url=played.url) for n, value in enumerate(["1", None, "3"])]
        drive = write(_Rig(played.url, behavior_on_null_values=kind), *rows)
        assert bodies(played) == ["1", "3"]
        assert drive.task.left_out() == {TopicPartition("t", 0): 1}  # type: ignore[attr-defined]


@pytest.mark.parametrize("connector", [ConfluentHttpSinkConnector, AivenHttpSinkConnector])
def test_a_null_is_named_as_bad_if_the_settings_say_so(connector: type[Connector]) -> None:
    settings = {"behavior_on_null_values": "fail"} if connector is ConfluentHttpSinkConnector else {}
    with scripted((200, {})) as played:
        rows = [row(value, n, url=played.url) for n, value in enumerate(["1", None, "3"])]
        with pytest.raises(RecordsFailed) as failed:
            write(_Rig(played.url, connector, **settings), *rows)
        assert [one.row for one in failed.value.failures] == [1]
        own = "behavior.on.null.values" if connector is ConfluentHttpSinkConnector else "RecordIsTombstone"
        assert own in str(failed.value)
        assert bodies(played) == ["1", "3"]


def test_a_delete_for_an_empty_key_is_refused() -> None:
    with scripted((200, {})) as played:
        rows = [row(None, n, key=key, url=f"{played.url}/{key}") for n, key in enumerate(["", "k"])]
        with pytest.raises(RecordsFailed, match="empty key") as failed:
            write(_Rig(played.url + "/${key}", behavior_on_null_values="delete"), *rows)
        assert [one.row for one in failed.value.failures] == [0]
        assert [(one.method, one.path) for one in played.asked] == [("DELETE", "/k")]


def test_a_record_without_a_request_is_named_with_its_reason() -> None:
    with scripted((200, {})) as played, pytest.raises(RecordsFailed, match="no id") as failed:
        write(_Rig(played.url), row("1", 0, url=played.url), row("2", 1, url="", fault="The record has no id"))
    assert [one.row for one in failed.value.failures] == [1]


def answering(status: int, **headers: str) -> tuple[int, Any]:
    def answer(handler: Any) -> None:
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    return status, answer


def test_a_busy_server_is_asked_again_when_it_says() -> None:
    with scripted(answering(429, Retry_After="1"), (200, {})) as played:
        began = time.monotonic()
        write(_Rig(played.url), row("1", 0, url=played.url))
        assert bodies(played) == ["1", "1"]
        assert time.monotonic() - began >= 0.9


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("Mon, 01 Jan 9999999999999 00:00:00 GMT", None),
        ("Sat, 01 Jan 2000 00:00:00 GMT", 0),
    ],
)
def test_retry_after_is_a_number_or_a_date(text: str, seconds: float | None) -> None:
    assert retry_after_s(HttpAnswer(503, b"", {"retry-after": text})) == seconds


def test_a_date_that_is_to_come_is_a_pause() -> None:
    pause = retry_after_s(HttpAnswer(503, b"", {"retry-after": formatdate(time.time() + 3600, usegmt=True)}))
    assert pause is not None
    assert 3000 < pause <= 3600


def test_statuses_outside_of_the_setting_are_not_tried_again() -> None:
    with scripted((404, {})) as played, pytest.raises(RecordsFailed, match=r"answered 404"):
        write(_Rig(played.url, retry_on_status_codes="408,500-"), row("1", 0, url=played.url))
    assert len(played.asked) == 1


def test_a_refused_record_is_tried_as_often_as_the_settings_say() -> None:
    with scripted((400, {"why": "bad"})) as played, pytest.raises(RecordsFailed, match=r"bad.*\(3 attempts\)"):
        write(_Rig(played.url, max_retries="2"), row("1", 0, url=played.url))
    assert len(played.asked) == 3


def test_an_outage_blames_no_record_and_what_was_sent_is_not_sent_again() -> None:
    with scripted((200, {}), (503, {}), (200, {})) as played:
        rig = _Rig(played.url, max_retries="0")
        drive = SinkDrive(rig)
        rows = pa.RecordBatch.from_pylist([row(f"{n}", n, url=played.url) for n in range(3)], schema=ROWS)
        writer = drive.writer()
        with pytest.raises(RetriableError, match="503"):
            writer.write(rows)
        writer.abort()
        writer = drive.writer()
        writer.write(rows)
        drive.task.commit([writer.finish()])
        assert bodies(played) == ["0", "1", "1", "2"]
        drive.end()


def test_a_committed_batch_that_comes_again_is_sent_again() -> None:
    with scripted((200, {})) as played:
        drive = SinkDrive(_Rig(played.url))
        for _ in range(2):
            writer = drive.writer()
            writer.write(pa.RecordBatch.from_pylist([row("1", 0, url=played.url)], schema=ROWS))
            drive.task.commit([writer.finish()])
        assert bodies(played) == ["1", "1"]
        drive.end()


@pytest.mark.parametrize(("behavior", "status"), [("ignore", 400), ("log", 400), ("ignore", 503)])
def test_what_cannot_be_sent_is_passed_over_if_the_settings_say_so(
    behavior: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with scripted((status, {}), (200, {})) as played:
        rig = _Rig(played.url, behavior_on_error=behavior, max_retries="0")
        drive = write(rig, row("1", 0, url=played.url), row("2", 1, url=played.url))
        assert bodies(played) == ["1", "2"]
        assert drive.task.left_out() == {TopicPartition("t", 0): 1}  # type: ignore[attr-defined]
        assert ("t-0@0 was not sent" in caplog.text) is (behavior == "log")


def test_tolerated_errors_go_connects_way_whatever_the_behavior() -> None:
    settings = {"behavior_on_error": "ignore", "errors_tolerance": "all", "max_retries": "0"}
    with scripted((400, {})) as played, pytest.raises(RecordsFailed):
        write(_Rig(played.url, **settings), row("1", 0, url=played.url))


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_is_no_success(status: int) -> None:
    for connector in (ConfluentHttpSinkConnector, AivenHttpSinkConnector):
        with scripted(answering(status, Location="/x")) as played, pytest.raises(RecordsFailed, match=str(status)):
            write(_Rig(played.url, connector, max_retries="0"), row("1", 0, url=played.url))
        assert len(played.asked) == 1


def test_an_answer_that_is_huge_or_torn_is_a_success_all_the_same() -> None:
    def torn(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"half")

    for content in (b"x" * (1 << 20), torn):
        with scripted((200, content)) as played:
            write(_Rig(played.url), row("1", 0, url=played.url))
            assert len(played.asked) == 1


def test_no_answer_is_an_outage() -> None:
    def drop(handler: Any) -> None:
        handler.close_connection = True
        handler.connection.close()

    with scripted((200, drop)) as played, pytest.raises(RetriableError):
        write(_Rig(played.url, max_retries="1"), row("1", 0, url=played.url))
    assert len(played.asked) == 2


def test_a_slow_answer_is_an_outage() -> None:
    ended = []

    def slow(handler: Any) -> None:
        while not ended:
            time.sleep(0.01)

    with scripted((200, slow)) as played:
        with pytest.raises(RetriableError, match="ReadTimeout"):
            write(_Rig(played.url, max_retries="0", http_request_timeout_ms="100"), row("1", 0, url=played.url))
        ended.append(True)


def test_a_task_that_has_to_end_waits_for_no_retry_and_knows_what_it_sent() -> None:
    with scripted((200, {}), answering(503, Retry_After="60")) as played:
        drive = SinkDrive(_Rig(played.url))
        rows = pa.RecordBatch.from_pylist([row(f"{n}", n, url=played.url) for n in range(3)], schema=ROWS)
        writer = drive.writer()
        stop = threading.Timer(0.1, drive.task.stopping.set)  # type: ignore[attr-defined]
        stop.start()
        writer.write(rows)
        assert drive.task.commit([writer.finish()]) == {TopicPartition("t", 0): 1}
        drive.end()


def test_a_batch_that_takes_long_is_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "LONGEST_S", -1.0)
    with scripted((200, {})) as played, pytest.raises(RetriableError, match="its rest comes next"):
        write(_Rig(played.url), row("1", 0, url=played.url))


def test_a_record_that_takes_the_batchs_time_is_not_tried_from_the_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "LONGEST_S", 0.2)

    def answer(handler: Any) -> None:
        if handler.body == b"bad":
            time.sleep(0.15)
        send(handler, 400 if handler.body == b"bad" else 200, b"")

    with scripted((0, answer)) as played:
        drive = SinkDrive(_Rig(played.url, max_retries="3"))
        rows = [row(value, n, url=played.url) for n, value in enumerate(["bad", "good"])]
        batch = pa.RecordBatch.from_pylist(rows, schema=ROWS)
        for _ in range(20):  # one or two attempts fit into the time of a batch
            writer = drive.writer()
            with pytest.raises((RetriableError, RecordsFailed)) as failed:
                writer.write(batch)
            if isinstance(failed.value, RecordsFailed):
                break
            assert "its rest comes next" in str(failed.value)
            writer.abort()
        assert isinstance(failed.value, RecordsFailed)
        assert [(one.row, one.message[-12:]) for one in failed.value.failures] == [(0, "(4 attempts)")]
        assert bodies(played) == ["bad"] * 4 + ["good"]
        drive.end()


def test_lanes_that_end_at_once_leave_the_first_of_their_records() -> None:
    setters = set[Any]()

    class Unsent(dict[TopicPartition, int]):
        def __setitem__(self, place: TopicPartition, offset: int) -> None:
            setters.add(threading.current_thread())
            super().__setitem__(place, offset)

    with scripted((200, {})) as played:
        drive = SinkDrive(_Rig(played.url, batch_max_size="2", batch_key_pattern="${key}"))
        task: Any = drive.task
        task.unsent = Unsent()
        rows = [row(f"{n}", n, url=played.url, batch=f"{n % 4}") for n in range(8)]
        writer = drive.writer()
        task.stopping.set()
        writer.write(pa.RecordBatch.from_pylist(rows, schema=ROWS))
        assert task.commit([writer.finish()]) == {TopicPartition("t", 0): 0}
        assert setters == {threading.current_thread()}  # two threads could each overwrite the other's offset
        drive.end()


def test_partitions_are_sent_at_the_same_time_and_each_in_order() -> None:
    with scripted((200, {})) as played:
        rows = [row(f"{n % 3}:{n}", n, partition=n % 3, url=played.url) for n in range(30)]
        write(_Rig(played.url), *rows)
        for partition in range(3):
            own = [int(one.body.split(":")[1]) for one in played.asked if one.body.startswith(f"{partition}:")]
            assert own == list(range(partition, 30, 3))


# -- logins and bounds -------------------------------------------------------------------------------------------------


def test_basic_and_headers() -> None:
    with scripted((200, {})) as played:
        settings = {"auth_type": "basic", "connection_user": "u", "connection_password": "pässword"}
        write(_Rig(played.url, headers="X-A: b:c|X-D:e", **settings), row("1", 0, url=played.url))
        sent = {name.lower(): value for name, value in played.asked[0].headers.items()}
        assert sent["authorization"] == "Basic dTpww6Rzc3dvcmQ="
        assert (sent["x-a"], sent["x-d"]) == ("b:c", "e")


@pytest.mark.parametrize("mode", ["header", "url"])
def test_a_token_is_fetched_once_and_again_after_a_401(mode: str) -> None:
    tokens = [(200, {"access_token": f"t{n}", "expires_in": 3600}) for n in range(2)]
    with scripted(*tokens) as issuer, scripted((200, {}), (401, {}), (200, {})) as played:
        settings = {"oauth2_token_url": f"{issuer.url}/token", "oauth2_client_auth_mode": mode}
        login = {"auth_type": "OAUTH2", "oauth2_client_id": "i", "oauth2_client_secret": "s&"}
        rows = [row(f"{n}", n, url=played.url) for n in range(3)]
        write(_Rig(played.url, **settings, **login), *rows)
        assert bodies(played) == ["0", "1", "1", "2"]
        shown = [one.headers["Authorization"] for one in played.asked]
        assert shown == ["Bearer t0", "Bearer t0", "Bearer t1", "Bearer t1"]
        asked = issuer.asked[0]
        in_form = "grant_type=client_credentials&scope=any"
        assert asked.body == in_form + ("" if mode == "header" else "&client_id=i&client_secret=s%26")
        assert ("Authorization" in asked.headers) is (mode == "header")


def test_a_login_that_is_refused_fails_the_task_and_blames_no_record() -> None:
    with scripted((401, {})) as played, pytest.raises(LoginRefused):
        write(_Rig(played.url), row("1", 0, url=played.url))
    assert len(played.asked) == 1


def test_aivens_oauth_names_its_properties() -> None:
    with scripted((200, {"tok": "x", "token_type": "Mac"})) as issuer, scripted((200, {})) as played:
        settings = {
            "http_authorization_type": "oauth2",
            "oauth2_access_token_url": issuer.url,
            "oauth2_client_id": "i",
            "oauth2_client_secret": "s",
            "oauth2_client_authorization_mode": "URL",
            "oauth2_response_token_property": "tok",
            "oauth2_request_client_id_property": "user",
            "oauth2_client_scope": "a b",
        }
        write(_Rig(played.url, AivenHttpSinkConnector, **settings), row("1", 0, url=played.url))
        assert issuer.asked[0].body == "grant_type=client_credentials&scope=a+b&user=i&client_secret=s"
        assert played.asked[0].headers["Authorization"] == "Mac x"


def test_aivens_batches_end_in_a_line_end() -> None:
    with scripted((200, {})) as played:
        rows = [row(f"{n}", n, url=played.url) for n in range(3)]
        write(_Rig(played.url, AivenHttpSinkConnector, batching_enabled="true"), *rows)
        assert bodies(played) == ["0\n1\n2\n"]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("connection.disallow.local.ips", "true", "connection.disallow.local.ips refuses its address 127.0.0.1"),
        ("connection.disallow.cidr.ranges", "10.0.0.0/8,127.0.0.0/8", "connection.disallow.cidr.ranges refuses"),
        ("connection.allow.cidr.ranges", "10.0.0.0/8", "has no network of its address"),
    ],
)
def test_addresses_are_refused_as_the_settings_say(key: str, value: str, why: str) -> None:
    with scripted((200, {})) as played:
        with pytest.raises(ConfigError, match=why):
            write(_Rig(played.url, **{key: value}), row("1", 0, url=played.url))
        write(_Rig(played.url, connection_disallow_private_ips="true"), row("1", 0, url=played.url))


def test_a_certificate_has_to_be_trusted(tmp_path: Path) -> None:
    own: Identity = identity("server")
    with scripted((200, {}), context=own.server_context(tmp_path)) as played:
        with pytest.raises(ConfigError, match=r"https\.ssl\.truststore\.location"):
            write(_Rig(played.url), row("1", 0, url=played.url))
        store = tmp_path / "trusted.pem"
        store.write_text(own.certificate_pem)
        settings = {"https.ssl.truststore.location": str(store), "https.ssl.truststore.type": "PEM"}
        write(_Rig(played.url, **settings), row("1", 0, url=played.url))
        aiven = {"http.ssl.truststore.location": str(store)}
        write(_Rig(played.url, AivenHttpSinkConnector, **aiven), row("2", 1, url=played.url))
        assert bodies(played) == ["1", "2"]


def test_a_proxy_is_asked_with_its_login() -> None:
    with scripted((200, {})) as proxy:
        host, port = proxy.url.removeprefix("http://").split(":")
        settings = {
            "http_proxy_host": host,
            "http_proxy_port": port,
            "http_proxy_user": "u",
            "http_proxy_password": "p",
        }
        write(_Rig("http://127.0.0.1:9/x", **settings), row("1", 0, url="http://127.0.0.1:9/x"))
        assert proxy.asked[0].path == "http://127.0.0.1:9/x"
        assert proxy.asked[0].headers["Proxy-Authorization"] == "Basic dTpw"


# -- configs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"behavior.on.null.values": "delete"}, "http.api.url"),
        ({"http.api.url": "ftp://h/x"}, "http.api.url"),
        ({"http.api.url": "http://${host}/x"}, "http.api.url"),
        ({"http.api.url": "http://h:${port}/x"}, "http.api.url"),
        ({"request.method": "get"}, "request.method"),
        ({"regex.patterns": "("}, "regex.patterns"),
        ({"regex.patterns": "a", "regex.replacements": "$1"}, "regex.replacements"),
        ({"regex.patterns": "a", "regex.replacements": "${id}"}, "regex.replacements"),
        ({"regex.patterns": "a", "regex.replacements": "b~c"}, "regex.replacements"),
        ({"batch.key.pattern": "${id}"}, "batch.key.pattern"),
        ({"auth.type": "BASIC"}, "connection.user"),
        ({"auth.type": "OAUTH2"}, "oauth2.token.url"),
        ({"headers": "secret"}, "headers"),
        ({"headers": "X: secret-\u00fc"}, "headers"),
        ({"http.proxy.host": "h"}, "http.proxy.port"),
        ({"retry.on.status.codes": "500-400"}, "retry.on.status.codes"),
        ({"https.ssl.truststore.location": "/missing"}, "https.ssl.truststore.location"),
        ({"reporter.bootstrap.servers": "b:1", "reporter.security.protocol": "X"}, "security.protocol"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, str], key: str) -> None:
    config = {"name": "c", "http.api.url": "http://127.0.0.1:9/x", **settings}
    connector = ConfluentHttpSinkConnector()
    found = [*connector.settings.problems(config), *connector.validate(config)]
    assert [one.key for one in found][:1] == [key]
    assert "secret" not in str(found[0]).replace("client_secret", "")


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"http.authorization.type": "static"}, "http.headers.authorization"),
        ({"http.headers.authorization": "x"}, "http.headers.authorization"),
        ({"http.ssl.trust.all.certs": "true"}, "http.ssl.trust.all.certs"),
        ({"batching.enabled": "true", "errors.tolerance": "all"}, "errors.tolerance"),
        ({"http.proxy.host": "h"}, "http.proxy.port"),
        ({"http.headers.additional": "a"}, "http.headers.additional"),
        ({"http.headers.additional": "a:b,a:c"}, "http.headers.additional"),
        ({"http.headers.content.type": "text/\u00fc"}, "http.headers.content.type"),
        ({"http.authorization.type": "static", "http.headers.authorization": "a\nb"}, "http.headers.authorization"),
    ],
)
def test_aivens_wrong_settings_are_refused(settings: dict[str, str], key: str) -> None:
    config = {"http.url": "http://127.0.0.1:9/x", "http.authorization.type": "none", **settings}
    connector = AivenHttpSinkConnector()
    found = [*connector.settings.problems(config), *connector.validate(config)]
    assert [one.key for one in found][:1] == [key]


def test_statuses_are_codes_and_ranges_with_their_ends() -> None:
    found = Statuses.of("404, 408,500-")
    assert [one in found for one in (403, 404, 408, 499, 500, 599)] == [False, True, True, False, True, True]


def test_what_became_of_requests_is_reported() -> None:
    mock = MockCluster()
    for topic in ("taken-c", "refused"):
        mock.create(topic)
    settings = {
        "reporter.bootstrap.servers": mock.bootstrap,
        "reporter.result.topic.name": "taken-${connector}",
        "reporter.result.topic.value.format": "string",
        "reporter.error.topic.name": "refused",
        "report.errors.as": "http_response",
        "max.retries": "1",
    }
    with scripted((200, {"id": 1}), (400, {"why": "bad"})) as played:
        drive = SinkDrive(_Rig(played.url, **settings))
        writer = drive.writer()
        made = [row(f"{n}", n, key="k", url=played.url) for n in range(2)]
        with pytest.raises(RecordsFailed):
            writer.write(pa.RecordBatch.from_pylist(made, schema=ROWS))
        drive.task.commit([writer.finish()])
        drive.end()
    (taken,) = messages(mock.bootstrap, "taken-c")
    headers = [
        ("input_record_offset", b"0"),
        ("input_record_timestamp", b"1"),
        ("input_record_partition", b"0"),
        ("input_record_topic", b"t"),
    ]
    assert (taken.key(), taken.value(), taken.headers()) == (b'"k"', b'{"id": 1}', headers)
    assert [one.value() for one in messages(mock.bootstrap, "refused")] == [b'"{\\"why\\": \\"bad\\"}"'] * 2


def test_a_report_as_json_has_its_schema_if_asked() -> None:
    assert TextFormat(True, True).bytes("ä") == '{"schema":{"type":"string","optional":false},"payload":"ä"}'.encode()
    assert json.loads(TextFormat(True).bytes('{"a"')) == '{"a"'
    assert TextFormat(False).bytes("{}") == b"{}"
