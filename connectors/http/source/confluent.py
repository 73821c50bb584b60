"""The HTTP source by Confluent's settings: entities of one API, each with an offset of its own.

simple_incrementing   the offset counts the records
chaining              the offset is that of the last record
cursor_pagination     the offset is the cursor of a page
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import BoundedSemaphore
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import REQUIRED, Importance, Settings, Type
from headrace.config.validators import Check, OneOfIgnoringCase
from headrace.config.worker.allowed_hosts import AllowedHosts
from headrace.connectors.http.attempts import Statuses
from headrace.connectors.http.confluent_login import login_of, login_settings
from headrace.connectors.http.confluent_retries import retries_of, retry_settings
from headrace.connectors.http.login import parsed_headers
from headrace.connectors.http.settings import PROXY, TLS, URL, number, option, plain, proxy_of, required, tls_of
from headrace.connectors.http.source.asking import AnswerRefused, Ask, Asker, Page
from headrace.connectors.http.source.pages import ByCursor
from headrace.connectors.http.source.pointers import NoSuchPart, items, part, pointer_problem, shown, text
from headrace.connectors.http.source.polling import HttpSource, with_own_offsets
from headrace.connectors.http.source.templates import as_is, filled, in_url, names
from headrace.plugins.interop.http.client import HttpClient
from headrace.plugins.record_api.record import Record

_MODES: Final = ("simple_incrementing", "chaining", "cursor_pagination")
_ENTITY, _OFFSET, _TAKEN = "entity", "offset", "records"
_POINTER: Final = Check(pointer_problem, "a JSON pointer, such as /items")

SETTINGS: Final = (
    Settings(
        option("url", Type.STRING, REQUIRED, "The URL, with ${entityName} and ${offset}.", URL, Importance.HIGH),
        option(
            "topic.name.pattern",
            Type.STRING,
            REQUIRED,
            "The topic of an entity's records, with ${entityName}.",
            importance=Importance.HIGH,
        ),
        option("entity.names", Type.LIST, [], "The entities; the tasks share them."),
        option("http.request.method", Type.STRING, "GET", "GET or POST.", OneOfIgnoringCase("GET", "POST")),
        option("http.request.headers", Type.PASSWORD, "", "Headers, as Name:value."),
        option("http.request.sensitive.headers", Type.PASSWORD, "", "Further headers, as Name:value."),
        option("http.request.headers.separator", Type.STRING, "|", "What separates headers."),
        option("http.request.parameters", Type.PASSWORD, "", "Parameters, as a=b&c=d, of GET; with templates."),
        option("http.request.parameters.separator", Type.STRING, "&", "What separates parameters."),
        option("http.request.body", Type.PASSWORD, "", "The body, of POST; with templates."),
        option("http.initial.offset", Type.STRING, "", "The first offset."),
        option(
            "http.offset.mode",
            Type.STRING,
            "simple_incrementing",
            "What an offset is: simple_incrementing, chaining or cursor_pagination.",
            OneOfIgnoringCase(*_MODES),
        ),
        option(
            "http.offset.json.pointer", Type.STRING, "", "Where a record's offset is in it, for chaining.", _POINTER
        ),
        option(
            "http.next.page.json.pointer", Type.STRING, "", "Where the next page's cursor is in the answer.", _POINTER
        ),
        option("http.response.data.json.pointer", Type.STRING, "", "Where the records are in the answer.", _POINTER),
        number("request.interval.ms", 15000, "The pause between two requests for an entity.", 1),
        number("max.in.flight.requests", 10, "The most requests of a task on their way; an entity has one.", 1),
        *retry_settings(10),
        option("bearer.token", Type.PASSWORD, None, "The token, for BEARER."),
        number("http.connect.timeout.ms", 30000, "The longest wait for a connection.", 1),
        number("http.request.timeout.ms", 30000, "The longest wait for an answer.", 1),
    )
    + login_settings("NONE", "BASIC", "OAUTH2", "BEARER")
    + PROXY
    + TLS
)


class ConfluentHttpSource(HttpSource):
    """Polls one URL for each entity."""

    settings: ClassVar[Any] = SETTINGS
    version = "0.2.6"

    def take(self, config: Mapping[str, str]) -> None:
        """Read the settings. Errors: ConfigError."""
        super().take(config)
        values = self.config
        self.method: str = values["http.request.method"].upper()
        self.interval_s = values["request.interval.ms"] / 1000
        self._mode: str = values["http.offset.mode"].lower()
        self._began: dict[str, tuple[Mapping[str, Any], str]] = {}
        """By entity: the offset after which pages ended, and the cursor to go on with."""
        separator = values["http.request.headers.separator"] or "|"
        self._headers: dict[str, str] = {}
        for key in ("http.request.headers", "http.request.sensitive.headers"):
            self._headers |= parsed_headers(plain(values[key]), separator, key)
        _check(values, self._mode)

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        """The entities; one without a name, if none has one."""
        return [{_ENTITY: name} for name in self.config["entity.names"] or [""]]

    def made_asker(self) -> Asker:
        """The asker of these settings. Errors: ConfigError."""
        values = self.config
        client = HttpClient(
            AllowedHosts.of(self.worker),
            connect_s=values["http.connect.timeout.ms"] / 1000,
            read_s=values["http.request.timeout.ms"] / 1000,
            context=tls_of(values).client_context(),
            proxy=proxy_of(*(values[f"http.proxy.{name}"] for name in ("host", "port", "user", "password"))),
            read_setting="http.request.timeout.ms",
            trust_setting="https.ssl.truststore.location",
        )
        login = login_of(values, client)
        at_once = BoundedSemaphore(values["max.in.flight.requests"])
        return Asker(
            client, login, retries_of(values), Statuses.of("200-299"), Statuses.of(""), "url", self.stopping, at_once
        )

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accept the offsets of entities. Errors: ValueError."""
        for one in offsets.get("offsets") or ():
            partition, offset = one.get("partition"), one.get("offset")
            if not isinstance(partition, Mapping) or set(partition) != {_ENTITY}:
                raise ValueError(f'A source partition is {{"entity": name}}, not {partition}')
            if offset is None:
                continue
            if not isinstance(offset.get(_OFFSET), str) or not isinstance(offset.get(_TAKEN, 0), int):
                raise ValueError(f'An offset is {{"offset": text}}, with "records": number by pages, not {offset}')
            mode = config.get("http.offset.mode", _MODES[0]).strip().lower()
            if mode == _MODES[0] and not offset[_OFFSET].isdecimal():
                raise ValueError(f"With http.offset.mode={mode} an offset is the text of a number, not {offset}")
        return True

    def poll(self, after: Any, partition: Any) -> Iterator[Record]:
        """Yield an entity's records that follow this offset, if it is time. Errors: as `asking`."""
        entity: str = partition[_ENTITY]
        if not self.is_due(entity):
            return
        offset = after or {_OFFSET: self.config["http.initial.offset"] or ""}
        if self._mode == "cursor_pagination":
            yield from self._pages(entity, offset)
        else:
            yield from with_own_offsets(self._records(entity, offset[_OFFSET]))
        self.asked(self.interval_s, entity)

    def _records(self, entity: str, offset: str) -> Iterator[Record]:
        for count, one in enumerate(self._content(entity, offset)[1], 1):
            behind = self._offset_of(one) if self._mode == "chaining" else str(int(offset or "0") + count)
            yield self._record(entity, one, {_OFFSET: behind})

    def _pages(self, entity: str, offset: Mapping[str, Any]) -> Iterator[Record]:
        paging = ByCursor("", self.config["http.next.page.json.pointer"], _OFFSET)
        cursor: str | None = offset[_OFFSET]
        taken = offset.get(_TAKEN, 0)
        began = self._began.get(entity)
        if began is not None and began[0] == offset:
            cursor, taken = began[1], 0
        while cursor is not None and not self.stopping.is_set():
            page, found = self._content(entity, cursor)
            for count, one in enumerate(found[taken:], taken + 1):
                offset = {_OFFSET: cursor, _TAKEN: count}
                yield self._record(entity, one, offset)
            cursor, taken = paging.after(cursor, page, len(found)), 0
            if cursor is not None:
                self._began[entity] = (offset, cursor)
            if not found:  # a server may always name a next page
                return

    def _content(self, entity: str, offset: str) -> tuple[Page, Sequence[Any]]:
        page = self.asker.page(self._ask({"entityName": entity, "offset": offset}))
        if page.content is None:
            return page, []
        try:
            return page, items(page.content, self.config["http.response.data.json.pointer"])
        except NoSuchPart as error:
            raise _does_not_fit("http.response.data.json.pointer", error) from None

    def _ask(self, values: Mapping[str, str]) -> Ask:
        url = filled(self.config["url"], values, in_url)
        if self.method == "POST":
            headers = {"Content-Type": "application/json", **self._headers}
            return Ask("POST", url, headers, filled(plain(self.config["http.request.body"]), values, as_is))
        separator = self.config["http.request.parameters.separator"] or "&"
        given = [one.partition("=") for one in plain(self.config["http.request.parameters"]).split(separator)]
        pairs = [(name.strip(), filled(text_, values, as_is)) for name, _, text_ in given if name.strip()]
        if pairs:
            url += ("&" if "?" in url else "?") + urlencode(pairs)
        return Ask("GET", url, self._headers)

    def _record(self, entity: str, one: Any, offset: Mapping[str, Any]) -> Record:
        topic = filled(self.config["topic.name.pattern"], {"entityName": entity})
        return Record(one, topic=topic, offset=dict(offset))

    def _offset_of(self, one: Any) -> str:
        pointer = self.config["http.offset.json.pointer"]
        try:
            found = part(one, pointer)
            if found is None:  # would be asked for as the text `null`
                raise NoSuchPart(f"it has null at {pointer}: {shown(one)}")
        except NoSuchPart as error:
            raise _does_not_fit("http.offset.json.pointer", error) from None
        return text(found)


def _does_not_fit(key: str, error: NoSuchPart) -> Exception:
    return AnswerRefused(f"The answer does not fit: {error}. Check {key}.")


def _check(values: Mapping[str, Any], mode: str) -> None:
    """Refuse settings that contradict each other. Errors: ConfigError."""
    if mode == "chaining":
        required(values, "for http.offset.mode=chaining", "http.offset.json.pointer")
    if mode == "cursor_pagination":
        required(values, "for http.offset.mode=cursor_pagination", "http.next.page.json.pointer")
    problems = []
    keys = ("url", "http.request.parameters", "http.request.body", "topic.name.pattern")
    for key in keys:
        known = ("entityName",) if key == keys[-1] else ("entityName", "offset")
        if wrong := [name for name in names(plain(values[key])) if name not in known]:
            what = f"${{{wrong[0]}}} is not known."
            problems.append(Problem(key, None, what, f"Use {' and '.join(f'${{{one}}}' for one in known)}."))
    initial = values["http.initial.offset"]
    if mode == "simple_incrementing" and initial and not initial.isdecimal():
        what = "With http.offset.mode=simple_incrementing it is a number."
        problems.append(Problem("http.initial.offset", initial, what, "Set it to a number, or choose another mode."))
    several = len(values["entity.names"]) > 1
    if several and "entityName" not in list(names("".join(plain(values[key]) for key in keys[:3]))):
        what = "There are several entities, and no request says which one it is for."
        problems.append(Problem("url", None, what, "Add ${entityName} to it, or to the parameters or the body."))
    if problems:
        raise ConfigError(problems)
