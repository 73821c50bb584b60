"""The HTTP sources without a worker: the kit, requests, pages, offsets, filters, timestamps."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker.allowed_files import named_files
from headrace.connectors.http.source.asking import AnswerRefused, Page
from headrace.connectors.http.source.castorm import CastormHttpSource
from headrace.connectors.http.source.confluent import ConfluentHttpSource
from headrace.connectors.http.source.pages import ByLink, ByWindow, on_same_server
from headrace.connectors.http.source.pointers import NoSuchPart, items, part
from headrace.connectors.http.source.polling import HttpSource
from headrace.connectors.http.source.timestamps import DEFAULT, TimestampParser, UnreadableTimestamp
from headrace.plugins.contracts import Connector, StopToken, TaskContext
from headrace.plugins.errors import LoginRefused, RetriableError
from headrace.plugins.record_api.record import Record
from headrace.plugins.testkit import HttpOutside, Request, SourceContract, SourceFaultsContract, SourceRig
from tests.unit.converters.registry.scripted_registry import ScriptedRegistry, scripted, send


class Items(HttpOutside):
    """Items with numbers that grow, from one on."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[str] = []

    def found(self) -> list[dict[str, Any]]:
        return [{"id": n, "text": value} for n, value in enumerate(self.values, 1)]

    def answer(self, request: Request) -> Any:
        after = int(request.query.get("after") or 0)
        return {"items": self.found()[after : after + 1000], "next": ""}


class Paged(Items):
    def answer(self, request: Request) -> Any:
        begin = int(request.query.get("page") or 1) * 100 - 100
        found = self.found()[begin : begin + 100]
        return {"items": found, "next": str(begin // 100 + 2) if begin + 100 < len(self.values) else None}


class _Rig(SourceRig):
    server: type[Items] = Items

    def __init__(self) -> None:
        self.outside = self.server()

    def put(self, values: Sequence[Any]) -> None:
        self.outside.values += values  # type: ignore[attr-defined]

    @property
    def url(self) -> str:
        return self.outside.url  # type: ignore[attr-defined, no-any-return]


class CastormRig(_Rig):
    def connector(self) -> Connector:
        return CastormHttpSource()

    def config(self) -> dict[str, str]:
        return {
            "kafka.topic": "t",
            "http.request.url": self.url,
            "http.request.params": "after=${offset.id}",
            "http.response.list.pointer": "/items",
            "http.response.record.offset.pointer": "id=/id",
            "http.timer.interval.millis": "1",
            "http.timer.catchup.interval.millis": "1",
        }

    def value(self, record: Any) -> Any:
        return json.loads(record.value["value"])["text"]


class TestCastorm(SourceContract, SourceFaultsContract):
    @pytest.fixture
    def rig(self) -> Iterator[SourceRig]:
        rig = CastormRig()
        yield rig
        rig.outside.close()


class PagedRig(CastormRig):
    server = Paged

    def config(self) -> dict[str, str]:
        config = super().config()
        del config["http.response.record.offset.pointer"]
        return {**config, "http.request.params": "page=${page}", "http.paging": "PAGE"}


class TestPages(SourceContract):
    @pytest.fixture
    def rig(self) -> Iterator[SourceRig]:
        rig = PagedRig()
        yield rig
        rig.outside.close()


class ConfluentRig(_Rig):
    mode: Mapping[str, str] = {"http.offset.mode": "CHAINING", "http.offset.json.pointer": "/id"}

    def connector(self) -> Connector:
        return ConfluentHttpSource()

    def config(self) -> dict[str, str]:
        return {
            "url": f"{self.url}/${{entityName}}",
            "entity.names": "one",
            "topic.name.pattern": "t",
            "http.request.parameters": "after=${offset}",
            "http.response.data.json.pointer": "/items",
            "request.interval.ms": "1",
            "max.retries": "0",
            **self.mode,
        }

    def value(self, record: Any) -> Any:
        return record.value["text"]


class CursorRig(ConfluentRig):
    server = Paged
    mode: Mapping[str, str] = {
        "http.offset.mode": "CURSOR_PAGINATION",
        "http.next.page.json.pointer": "/next",
        "http.request.parameters": "page=${offset}",
    }


class TestConfluent(SourceContract):
    @pytest.fixture(params=[ConfluentRig, CursorRig])
    def rig(self, request: pytest.FixtureRequest) -> Iterator[SourceRig]:
        rig = request.param()
        yield rig
        rig.outside.close()


# -- one poll after the other against a scripted server ----------------------------------------------------------------


def opened(source: HttpSource, config: Mapping[str, str]) -> Any:
    source.take(config)
    source.stopping = StopToken()
    source.open()
    return closing(source)


def castorm(played: ScriptedRegistry, **settings: str) -> Any:
    own = {key.replace("_", "."): value for key, value in settings.items()}
    url = {"kafka.topic": "t", "http.request.url": played.url, "http.timer.interval.millis": "1"}
    return opened(CastormHttpSource(), {**url, "http.timer.catchup.interval.millis": "1", **own})


def polled(source: Any, after: Any = None, *further: Any) -> list[Record]:
    time.sleep(0.002)
    return list(source.poll(after, *further))


def texts(records: Sequence[Record]) -> list[Any]:
    return [record.value["value"] for record in records]


def test_the_whole_answer_is_one_record_with_a_key_of_its_own() -> None:
    with scripted((200, {"uuid": "ü"})) as played, castorm(played) as source:
        (record,) = polled(source)
        assert record.value["value"] == '{"uuid":"ü"}'
        assert record.key == {"key": record.value["key"]}
        assert record.timestamp == record.value["timestamp"]
        assert len(record.value["key"]) == 36
        assert record.offset is None
        assert polled(source)[0].value["key"] == record.value["key"]


def test_strings_in_place_of_structs() -> None:
    mapper = "com.github.castorm.kafka.connect.http.record.StringKvSourceRecordMapper"
    settings = {"http.response.record.mapper": mapper, "http_response_record_offset_pointer": "key=/id"}
    with scripted((200, [{"id": 7}])) as played, castorm(played, **settings) as source:
        (record,) = polled(source)
        assert (record.value, record.key, record.offset) == ('{"id":7}', "7", {"key": "7"})


def test_requests_are_made_of_templates() -> None:
    settings = {
        "http_request_method": "POST",
        "http_request_headers": r"X-A: a\, b, X-Since: ${offset.ts}",
        "http_request_params": "q=a%20b & since=${ts}",
        "http_request_body": '{"since": "${offset.ts}"}',
        "http_offset_initial": "ts=1 2",
    }
    with scripted((200, [])) as played, castorm(played, **settings) as source:
        assert polled(source) == []
        (asked,) = played.asked
        assert (asked.method, asked.path) == ("POST", "/?q=a%20b&since=1%202")
        assert (asked.headers["X-A"], asked.headers["X-Since"]) == ("a, b", "1 2")
        assert asked.body == {"since": "1 2"}


STAMPED = {"http_response_record_offset_pointer": "timestamp=/at,key=/id"}


def test_only_newer_records_come_and_those_behind_the_last_one() -> None:
    first = [{"id": n, "at": f"2020-01-01T00:00:0{n}Z"} for n in (1, 2, 3)]
    then = [*first, {"id": 4, "at": "2020-01-01T00:00:03Z"}, {"id": 5, "at": "2020-01-01T00:00:05.500Z"}]
    with scripted((200, first), (200, then)) as played, castorm(played, **STAMPED) as source:
        records = polled(source)
        assert [record.key["key"] for record in records] == ["1", "2", "3"]
        last = records[-1].offset
        assert last == {"timestamp": "2020-01-01T00:00:03Z", "key": "3"}
        again = polled(source, last)
        assert [record.key["key"] for record in again] == ["4", "5"]
        assert again[-1].timestamp == 1577836805500
        assert polled(source, again[-1].offset) == []


@pytest.mark.parametrize(("order", "keys"), [("IMPLICIT", "12"), ("DESC", "12"), ("ASC", "21")])
def test_an_answer_that_falls_is_turned(order: str, keys: str) -> None:
    found = [{"id": n, "at": n} for n in (2, 1)]
    settings = {**STAMPED, "http_response_list_order_direction": order}
    with scripted((200, found)) as played, castorm(played, **settings) as source:
        assert [record.key["key"] for record in polled(source)] == list(keys)


def test_a_filter_may_let_all_pass() -> None:
    settings = {**STAMPED, "http_record_filter_factory": "PassthroughRecordFilterFactory"}
    with scripted((200, [{"id": 1, "at": 1}])) as played, castorm(played, **settings) as source:
        offset = polled(source)[0].offset
        assert len(polled(source, offset)) == 1


def test_records_of_one_offset_have_it_together() -> None:
    found = [{"id": 1, "at": 1}, {"id": 1, "at": 1}, {"id": 2, "at": 1}]
    with scripted((200, found)) as played, castorm(played, **STAMPED) as source:
        assert [record.offset is not None for record in polled(source)] == [False, True, True]


def test_statuses_to_skip_have_no_records() -> None:
    settings = {"http_response_policy_codes_skip": "300..399,404"}
    with scripted((404, {})) as played, castorm(played, **settings) as source:
        assert polled(source) == []


def test_a_redirect_that_is_skipped_is_told(caplog: pytest.LogCaptureFixture) -> None:
    for status in (307, 304):
        with scripted((status, {})) as played, castorm(played, http_request_method="POST") as source:
            assert polled(source) == []
    told = [record.getMessage() for record in caplog.records if "redirects" in record.msg]
    assert ["status 307" in one for one in told] == [True]


def test_an_initial_timestamp_for_templates_alone_is_any_text() -> None:
    settings = {"http_offset_initial": "timestamp=soon", "http_request_params": "t=${offset.timestamp}"}
    with scripted((200, [1])) as played, castorm(played, **settings) as source:
        assert texts(polled(source)) == ["1"]
        assert played.asked[0].path == "/?t=soon"


@pytest.mark.parametrize(
    ("status", "content", "error"),
    [
        (404, {}, AnswerRefused),
        (401, {}, LoginRefused),
        (429, {}, RetriableError),
        (503, {}, RetriableError),
        (200, b"{half", RetriableError),
        (200, b"[" * 100_000, RetriableError),
        (200, b"x" * (9 << 20), RetriableError),
        (200, {"other": 1}, ConfigError),
    ],
)
def test_other_answers_are_errors(status: int, content: Any, error: type[Exception]) -> None:
    with (
        scripted((status, content)) as played,
        castorm(played, http_response_list_pointer="/items") as source,
        pytest.raises(error),
    ):
        polled(source)


def test_a_busy_server_is_left_alone_as_long_as_it_says() -> None:
    def busy(handler: Any) -> None:
        handler.send_response(429)
        handler.send_header("Retry-After", "1")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    began = time.monotonic()
    with scripted((429, busy)) as played, castorm(played) as source, pytest.raises(RetriableError):
        polled(source)
    assert time.monotonic() - began >= 0.9


def test_a_timestamp_that_cannot_be_read_names_its_setting() -> None:
    with (
        scripted((200, [{"id": 1, "at": "yesterday"}])) as played,
        castorm(played, **STAMPED) as source,
        pytest.raises(ConfigError, match=r"timestamp\.parser\.pattern"),
    ):
        polled(source)


def test_it_waits_for_the_interval() -> None:
    with scripted((200, [])) as played, castorm(played, http_timer_interval_millis="3600000") as source:
        polled(source)
        polled(source)
        assert len(played.asked) == 1


def test_old_records_are_caught_up_with() -> None:
    found = (200, [{"id": 1, "at": 1}])
    settings = {**STAMPED, "http_timer_interval_millis": "3600000", "http_timer_catchup_interval_millis": "1"}
    with scripted(found) as played, castorm(played, **settings) as source:
        polled(source)
        polled(source)
        assert len(played.asked) == 2
        polled(source)  # nothing newer came: the interval counts again
        assert len(played.asked) == 2


# -- pages -------------------------------------------------------------------------------------------------------------


def test_links_are_followed_and_the_last_page_is_read_on() -> None:
    def linked(content: Any, link: str | None) -> tuple[int, Any]:
        def answer(handler: Any) -> None:
            data = json.dumps(content).encode()
            handler.send_response(200)
            if link is not None:
                handler.send_header("Link", link)
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data)

        return 200, answer

    pages = [linked([1, 2], '</first>; rel="first", </two?p=2>; rel="next"'), linked([3], None), linked([3, 4], None)]
    with scripted(*pages) as played, castorm(played, http_paging="LINK") as source:
        records = polled(source)
        assert texts(records) == ["1", "2", "3"]
        assert records[-1].offset == {"page": "/two?p=2", "page.records": 1}
        assert texts(polled(source, records[-1].offset)) == ["4"]
        assert [one.path for one in played.asked] == ["/", "/two?p=2", "/two?p=2"]


@pytest.mark.parametrize("content", [[], [1]])
def test_a_page_that_names_itself_as_the_next_one_is_the_last(content: Any) -> None:
    def linked(handler: Any) -> None:
        data = json.dumps(content if handler.path == "/next" else [0]).encode()
        handler.send_response(200)
        handler.send_header("Link", '</next>; rel="next"')
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    with scripted((200, linked)) as played, castorm(played, http_paging="LINK") as source:
        records = polled(source)
        assert texts(records) == ["0", *map(str, content)]
        assert polled(source, records[-1].offset) == []
        assert [one.path for one in played.asked] == ["/", "/next", "/next"]


@pytest.mark.parametrize(
    ("header", "url"),
    [
        ('<http://h/2>; rel="next"', "http://h/2"),
        ("<a>; rel=prev, <b>; title=x; rel=next", "b"),
        ('<a,b;c>; rel="last next"', "a,b;c"),
        ('<a>; rel="nextish"', None),
        ('<a>; rel="prev"; title="rel=next"', None),
        ("", None),
    ],
)
def test_the_next_link_is_found(header: str, url: str | None) -> None:
    assert ByLink().after("", Page([], {"link": header}), 1) == url


def test_a_page_on_another_server_is_refused() -> None:
    assert on_same_server("http://h:1/a?x", "/b") == "http://h:1/b"
    for other in ("http://other/b", "https://h:1/b", "//h:2/b"):
        with pytest.raises(AnswerRefused, match="another server"):
            on_same_server("http://h:1/a", other)


def test_cursors_are_followed_and_encoded() -> None:
    answers = [(200, {"d": [1], "n": "a+b="}), (200, {"d": [2], "n": None}), (200, {"d": [2, 3]})]
    settings = {
        "http_paging": "CURSOR",
        "http_paging_cursor_pointer": "/n",
        "http_request_params": "c=${cursor}",
        "http_response_list_pointer": "/d",
    }
    with scripted(*answers) as played, castorm(played, **settings) as source:
        records = polled(source)
        assert texts(records) == ["1", "2"]
        assert texts(polled(source, records[-1].offset)) == ["3"]
        assert [one.path for one in played.asked] == ["/?c=", "/?c=a%2Bb%3D", "/?c=a%2Bb%3D"]


def test_an_empty_page_behind_others_is_the_place_to_go_on() -> None:
    answers = [(200, {"d": [1], "n": "b"}), (200, {"d": []}), (200, {"d": [2]})]
    settings = {
        "http_paging": "CURSOR",
        "http_paging_cursor_pointer": "/n",
        "http_request_params": "c=${cursor}",
        "http_response_list_pointer": "/d",
    }
    with scripted(*answers) as played, castorm(played, **settings) as source:
        records = polled(source)
        assert texts(polled(source, records[-1].offset)) == ["2"]
        assert [one.path for one in played.asked] == ["/?c=", "/?c=b", "/?c=b"]


def test_a_server_that_always_has_a_next_cursor_is_asked_once_a_poll() -> None:
    answers = [(200, {"d": [], "n": "b"}), (200, {"d": [], "n": "c"}), (200, {"d": [1], "n": "d"}), (200, {"d": []})]
    own = {
        "http_paging": "CURSOR",
        "http_paging_cursor_pointer": "/n",
        "http_request_params": "c=${cursor}",
        "http_response_list_pointer": "/d",
    }
    with scripted(*answers) as played, castorm(played, **own) as source:
        assert [texts(polled(source)) for _ in range(3)] == [[], [], ["1"]]
        assert [one.path for one in played.asked] == ["/?c=", "/?c=b", "/?c=c", "/?c=d"]
    confluents = {
        "http_offset_mode": "cursor_pagination",
        "http_next_page_json_pointer": "/n",
        "http_request_parameters": "c=${offset}",
        "http_response_data_json_pointer": "/d",
    }
    with scripted(*answers) as played, confluent(played, **confluents) as source:
        found = [[one.value for one in polled(source, None, {"entity": ""})] for _ in range(3)]
        assert found == [[], [], [1]]
        assert [one.path for one in played.asked] == ["/?c=", "/?c=b", "/?c=c", "/?c=d"]


def test_windows_are_asked_for_once_they_are_over() -> None:
    now = time.time()
    first = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - 9000))
    settings = {
        "http_paging": "WINDOW",
        "http_paging_first": first,
        "http_request_params": "a=${from.millis}&b=${to.millis}",
    }
    with scripted((200, [1]), (200, [])) as played, castorm(played, **settings) as source:
        (record,) = polled(source)
        begin, hour = int(now - 9000) * 1000, 3_600_000
        assert [one.path for one in played.asked] == [f"/?a={at}&b={at + hour}" for at in (begin, begin + hour)]
        assert record.offset == {"page": str(begin), "page.records": 1}
        assert polled(source, record.offset) == []
        assert len(played.asked) == 2


def test_windows_have_times_in_iso() -> None:
    window = ByWindow("0", 1500, 0)
    assert window.values("0") == {
        "from": "1970-01-01T00:00:00Z", "to": "1970-01-01T00:00:01.500Z", "from.millis": "0", "to.millis": "1500"
    }  # fmt: skip


def test_numbers_go_on_at_the_last_page() -> None:
    answers = [(200, [1, 2]), (200, []), (200, [1, 2, 3]), (200, [4]), (200, [])]
    settings = {"http_paging": "PAGE", "http_paging_first": "0", "http_request_params": "p=${page}"}
    with scripted(*answers) as played, castorm(played, **settings) as source:
        records = polled(source)
        then = polled(source, records[-1].offset)
        assert (texts(records), texts(then)) == (["1", "2"], ["3", "4"])
        assert [one.path for one in played.asked] == ["/?p=0", "/?p=1", "/?p=0", "/?p=1", "/?p=2"]


# -- Confluent's -------------------------------------------------------------------------------------------------------


def confluent(played: ScriptedRegistry, **settings: str) -> Any:
    own = {key.replace("_", "."): value for key, value in settings.items()}
    config = {"url": f"{played.url}/${{entityName}}", "topic.name.pattern": "t-${entityName}", "retry.backoff.ms": "1"}
    return opened(ConfluentHttpSource(), {**config, "request.interval.ms": "1", **own})


def test_entities_have_topics_and_offsets_of_their_own() -> None:
    settings = {"entity_names": "a,b", "http_initial_offset": "5", "http_request_parameters": "o=${offset}&q=x y"}
    with scripted((200, [{"n": 1}, {"n": 2}])) as played, confluent(played, **settings) as source:
        assert source.partitions() == [{"entity": "a"}, {"entity": "b"}]
        records = polled(source, None, {"entity": "b"})
        assert [(one.topic, one.value, one.offset) for one in records] == [
            ("t-b", {"n": 1}, {"offset": "6"}),
            ("t-b", {"n": 2}, {"offset": "7"}),
        ]
        polled(source, {"offset": "7"}, {"entity": "b"})
        assert [one.path for one in played.asked] == ["/b?o=5&q=x+y", "/b?o=7&q=x+y"]


def test_entities_are_asked_for_at_the_same_time_as_far_as_the_settings_say() -> None:
    now, most = [0], [0]

    def slow(handler: Any) -> None:
        now[0] += 1
        most[0] = max(most[0], now[0])
        time.sleep(0.1)
        now[0] -= 1
        send(handler, 200, b"[1]")

    settings = {"entity_names": "a,b,c", "max_in_flight_requests": "1"}
    with scripted((200, slow)) as played, confluent(played, **settings) as source, ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda name: len(polled(source, None, {"entity": name})), "abc"))
    assert (found, most) == ([1, 1, 1], [1])


def test_a_record_without_its_offset_is_an_error() -> None:
    settings = {"http_offset_mode": "chaining", "http_offset_json_pointer": "/id"}
    for answer in ([{"id": None}], [{}]):
        with (
            scripted((200, answer)) as played,
            confluent(played, **settings) as source,
            pytest.raises(AnswerRefused, match=r"at /id.*Check http\.offset\.json\.pointer"),
        ):
            polled(source, None, {"entity": ""})


def test_a_body_is_posted() -> None:
    body = '{"after": "${offset}"}'
    settings = {"http_request_method": "post", "http_request_body": body, "http_initial_offset": "1"}
    with scripted((200, {"n": 1})) as played, confluent(played, **settings) as source:
        assert [one.value for one in polled(source, None, {"entity": ""})] == [{"n": 1}]
        assert (played.asked[0].method, played.asked[0].body) == ("POST", {"after": "1"})


def test_a_status_is_tried_again_as_the_settings_say() -> None:
    with scripted((400, {}), (200, [])) as played, confluent(played) as source:
        assert polled(source, None, {"entity": ""}) == []
    with (
        scripted((404, {})) as played,
        confluent(played, retry_on_status_codes="500-") as source,
        pytest.raises(AnswerRefused),
    ):
        polled(source, None, {"entity": ""})


def test_a_bearer() -> None:
    settings = {"auth_type": "bearer", "bearer_token": "secret"}
    with scripted((200, [])) as played, confluent(played, **settings) as source:
        polled(source, None, {"entity": ""})
        assert played.asked[0].headers["Authorization"] == "Bearer secret"


# -- configs, previews, parts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"http.request.params": "${offset.x?foo}"}, "http.request.params"),
        ({"http.request.body": "<#if x>"}, "http.request.body"),
        ({"http.request.url": "http://h/${offset.x!'1'}"}, "http.request.url"),
        ({"http.request.headers": "secret"}, "http.request.headers"),
        ({"http.request.headers": "X: secret-\u00fc"}, "http.request.headers"),
        ({"http.request.method": "DELETE"}, "http.request.method"),
        (
            {"http.offset.initial": "timestamp=soon", "http.response.record.offset.pointer": "timestamp=/at"},
            "http.offset.initial",
        ),
        ({"http.timer": "x.OtherTimer"}, "http.timer"),
        ({"http.throttler.interval.millis": "-1"}, "http.throttler.interval.millis"),
        ({"http.response.list.pointer": "items"}, "http.response.list.pointer"),
        ({"http.response.record.offset.pointer": "a"}, "http.response.record.offset.pointer"),
        ({"http.response.record.timestamp.parser": "x.NattyTimestampParser"}, "http.response.record.timestamp.parser"),
        ({"http.response.record.timestamp.parser.pattern": "EEE"}, "http.response.record.timestamp.parser.pattern"),
        ({"http.response.record.timestamp.parser.zone": "Mars"}, "http.response.record.timestamp.parser.zone"),
        ({"http.response.record.key.pointer": "/a"}, "http.response.record.key.pointer"),
        ({"http.auth.type": "Basic"}, "http.auth.user"),
        ({"http.paging": "CURSOR"}, "http.paging.cursor.pointer"),
        ({"http.paging": "WINDOW"}, "http.paging.first"),
        ({"http.paging": "WINDOW", "http.paging.first": "soon"}, "http.paging.first"),
        ({"http.paging": "PAGE", "http.request.params": "${cursor}"}, "http.request.params"),
    ],
)
def test_wrong_settings_of_castorm_are_refused(settings: dict[str, str], key: str) -> None:
    config = {"kafka.topic": "t", "http.request.url": "http://127.0.0.1:9", **settings}
    found = [*CastormHttpSource.settings.problems(config), *CastormHttpSource().validate(config)]
    assert [one.key for one in found][:1] == [key]
    assert "secret" not in str(found[0])


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"http.offset.mode": "CHAINING"}, "http.offset.json.pointer"),
        ({"http.offset.mode": "CURSOR_PAGINATION"}, "http.next.page.json.pointer"),
        ({"http.offset.mode": "SNAPSHOT"}, "http.offset.mode"),
        ({"http.initial.offset": "x"}, "http.initial.offset"),
        ({"entity.names": "a,b"}, "url"),
        ({"url": "http://h/${key}"}, "url"),
        ({"topic.name.pattern": "${offset}"}, "topic.name.pattern"),
        ({"auth.type": "BEARER"}, "bearer.token"),
        ({"auth.type": "BEARER", "bearer.token": "\u00fc"}, "bearer.token"),
    ],
)
def test_wrong_settings_of_confluent_are_refused(settings: dict[str, str], key: str) -> None:
    config = {"url": "http://127.0.0.1:9", "topic.name.pattern": "t", **settings}
    found = [*ConfluentHttpSource.settings.problems(config), *ConfluentHttpSource().validate(config)]
    assert [one.key for one in found][:1] == [key]


def test_offsets_of_an_operator_are_checked() -> None:
    source = CastormHttpSource()
    assert source.check_offsets({}, {"offsets": [{"partition": {}, "offset": {"id": "7"}}]})
    for wrong in ({"partition": {"a": 1}}, {"partition": {}, "offset": {"id": 7}}):
        with pytest.raises(ValueError, match=r"partition|type"):
            source.check_offsets({}, {"offsets": [wrong]})
    other = ConfluentHttpSource()
    assert other.check_offsets({}, {"offsets": [{"partition": {"entity": "a"}, "offset": {"offset": "7"}}]})
    offsets = ({"offset": 7}, {"offset": "x"}, {"offset": "7", "records": "1"})
    for wrong in ({"partition": {}}, *({"partition": {"entity": "a"}, "offset": one} for one in offsets)):
        with pytest.raises(ValueError, match=r"partition|offset"):
            other.check_offsets({}, {"offsets": [wrong]})


def test_a_clients_key_store_is_a_file_that_the_worker_bounds() -> None:
    assert [one.path for one in named_files({"http.client.keystore": "/secret.p12"})] == ["/secret.p12"]


def test_a_header_is_sent_once_whatever_its_case() -> None:
    settings = {"http_request_headers": "accept: a/b", "http_auth_type": "Basic", "http_auth_user": "u"}
    with scripted((200, [])) as played, castorm(played, **settings) as source:
        polled(source)
        sent = [(name.lower(), value) for name, value in played.asked[0].headers.items()]
        assert [value for name, value in sent if name == "accept"] == ["a/b"]


def test_only_requests_that_read_are_previewed() -> None:
    task = CastormHttpSource.task()
    config = {"kafka.topic": "t", "http.request.url": "http://127.0.0.1:9", "http.request.method": "POST"}
    with pytest.raises(NotImplementedError, match="POST"):
        task.start_preview(config, TaskContext("c", 0, StopToken()))


def test_a_task_keeps_to_the_workers_hosts() -> None:
    task = CastormHttpSource.task()
    context = TaskContext("c", 0, StopToken(), {"connector.allowed.hosts": ["10.0.0.0/8"]})
    task.start({"kafka.topic": "t", "http.request.url": "http://127.0.0.1:9"}, context)
    with pytest.raises(ConfigError, match=r"connector\.allowed\.hosts"):
        list(task.plugin.poll(None))
    task.stop()


@pytest.mark.parametrize(
    ("parser", "text", "millis"),
    [
        (TimestampParser(), "1577836800123", 1577836800123),
        (TimestampParser(), "2020-01-01T00:00:00Z", 1577836800000),
        (TimestampParser(), "2020-01-01T02:00:00.123+02", 1577836800123),
        (TimestampParser(), "2020-01-01T02:00:00.123+02:00", 1577836800123),
        (TimestampParser("yyyy-MM-dd HH:mm:ss", "Europe/Berlin"), "2020-01-01 01:00:00", 1577836800000),
        (TimestampParser("dd.MM.yyyy"), "01.01.2020", 1577836800000),
        (TimestampParser("yyyyMMdd", takes_millis=False), "20200101", 1577836800000),
        (TimestampParser(DEFAULT, regex="at=(?P<timestamp>.*);"), "x at=2020-01-01T00:00:00Z;", 1577836800000),
        (TimestampParser(), "2020-13-01T00:00:00Z", None),
        (TimestampParser(), "2020-01-01", None),
        (TimestampParser(DEFAULT, regex="at=(.*);"), "nothing", None),
    ],
)
def test_timestamps(parser: TimestampParser, text: str, millis: int | None) -> None:
    if millis is None:
        with pytest.raises(UnreadableTimestamp):
            parser.millis(text)
    else:
        assert parser.millis(text) == millis


def test_pointers() -> None:
    node = {"a": {"b/c": [{"~": 1}, None]}, "": 2}
    assert part(node, "/") == part(node, "") == node
    assert part(node, "/a/b~1c/0/~0") == 1
    assert items(node, "/a/b~1c") == [{"~": 1}, None]
    assert items(node, "/a/b~1c/1") == []
    assert items(node, "/a") == [node["a"]]
    for pointer in ("/x", "/a/b~1c/2", "/a/b~1c/x", "/a/b~1c/0/~0/y"):
        with pytest.raises(NoSuchPart):
            part(node, pointer)
