"""The HTTP source by castorm's settings: one request, or page after page, at each tick of a timer.

Decided: what was read is remembered at once, while the original forgets it until Connect stores the offset, and so
sends records again that it polls faster than that; loses: nothing.
Decided: 408, 425, 429 and 5xx are tried again, while the original ends its task; loses: nothing.
Decided: without a pointer to a timestamp a record is new if it comes behind the one that was read last, or if that one
is not in the answer, while the original sends all again; loses: repeats of an answer that does not change.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import md5
from typing import Any, ClassVar, Final

import httpx

from headrace.config.problems import ConfigError, Problem
from headrace.config.worker.allowed_hosts import AllowedHosts
from headrace.connectors.http.attempts import Retries, Statuses, constant
from headrace.connectors.http.login import Login
from headrace.connectors.http.settings import plain, proxy_of, required
from headrace.connectors.http.source.asking import Ask, Asker
from headrace.connectors.http.source.castorm_options import (
    check,
    headers_of,
    paging_of,
    parser_of,
    pointers_of,
    tls_of_client,
)
from headrace.connectors.http.source.castorm_settings import KEY, SETTINGS, TIMESTAMP, pairs, simple
from headrace.connectors.http.source.pages import Paging, on_same_server
from headrace.connectors.http.source.pointers import NoSuchPart, items, part, text
from headrace.connectors.http.source.polling import HttpSource, with_own_offsets
from headrace.connectors.http.source.templates import as_is, filled, in_url
from headrace.connectors.http.source.timestamps import TimestampParser, UnreadableTimestamp, iso
from headrace.plugins.interop.http.client import HttpClient, basic_header
from headrace.plugins.record_api.record import Record
from headrace.plugins.schema import OPTIONAL_STRING, STRING, Field, Schema, SchemaType

_PACKAGE: Final = "com.github.castorm.kafka.connect.http."
_KEY: Final = Schema(SchemaType.STRUCT, name=f"{_PACKAGE}Key", fields=(Field("key", STRING),))
_VALUE: Final = Schema(
    SchemaType.STRUCT,
    name=f"{_PACKAGE}Value",
    fields=(Field("value", STRING), Field("key", STRING), Field("timestamp", Schema(SchemaType.INT64))),
)
_PAGE, _TAKEN = "page", "page.records"
"""Members of an offset: the page, and how many of its records were taken."""


class CastormHttpSource(HttpSource):
    """Polls one URL."""

    settings: ClassVar[Any] = SETTINGS
    version = "0.8.11"

    def take(self, config: Mapping[str, str]) -> None:
        """Read the settings. Errors: ConfigError."""
        super().take(config)
        values = self.config = {**self.config, "topic": self.config["kafka.topic"]}
        self.method: str = values["http.request.method"]
        self.interval_s, self._catching_up_s = (
            (values[f"http.throttler.{name}.millis"] or values[f"http.timer.{name}.millis"]) / 1000
            for name in ("interval", "catchup.interval")
        )
        self.is_schemed = simple(values["http.response.record.mapper"]).startswith("Schemed")
        self._initial = pairs(values, "http.offset.initial")
        self._pointers = pointers_of(values)
        self._parser = parser_of(values)
        self._paging = paging_of(values, self._parser)
        self._newest = self._newest_before = 0
        """The newest timestamp so far, and that of the poll before."""
        self._began: tuple[Any, str] | None = None
        """The offset after which pages ended, and the page to go on with."""
        check(values)
        if TIMESTAMP in self._pointers:
            self._check_initial(self._initial.get(TIMESTAMP))

    @property
    def key_schema(self) -> Any:
        """The schema of keys."""
        return _KEY if self.is_schemed else STRING

    @property
    def value_schema(self) -> Any:
        """The schema of values."""
        return _VALUE if self.is_schemed else OPTIONAL_STRING

    def made_asker(self) -> Asker:
        """The asker of these settings. Errors: ConfigError."""
        values = self.config
        login = Login()
        if values["http.auth.type"].lower() == "basic":
            required(values, "for http.auth.type=Basic", "http.auth.user")
            login = Login(basic_header(f"{values['http.auth.user']}:{plain(values['http.auth.password'])}"))
        proxy = (values[f"http.client.proxy.{name}"] for name in ("host", "port", "username", "password"))
        client = HttpClient(
            AllowedHosts.of(self.worker),
            connect_s=values["http.client.connection.timeout.millis"] / 1000,
            read_s=values["http.client.read.timeout.millis"] / 1000,
            context=tls_of_client(values).client_context(),
            proxy=proxy_of(*proxy),
            read_setting="http.client.read.timeout.millis",
            trust_setting="https.ssl.truststore.location",
            limits=httpx.Limits(
                max_keepalive_connections=values["http.client.max-idle"],
                keepalive_expiry=values["http.client.ttl.millis"] / 1000,
            ),
        )
        processed, skipped = (Statuses.of(values[f"http.response.policy.codes.{one}"]) for one in ("process", "skip"))
        retries = Retries(0, Statuses.of(""), constant(0))
        return Asker(client, login, retries, processed, skipped, "http.request.url", self.stopping)

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accept offsets of texts for the one partition. Errors: ValueError."""
        for one in offsets.get("offsets") or ():
            if one.get("partition") != {}:
                raise ValueError(f"The one source partition is {{}}, not {one.get('partition')}")
            for name, value in (one.get("offset") or {}).items():
                wanted = int if name == _TAKEN else str
                if not isinstance(value, wanted):
                    raise ValueError(f"{name} has to be of the type {wanted.__name__}, not {value!r:.60}")
        return True

    # -- polls ---------------------------------------------------------------------------------------------------------

    def poll(self, after: Any) -> Iterator[Record]:
        """Yield the records that are new, if it is time. Errors: as `asking`; AnswerRefused."""
        if not self.is_due():
            return
        yield from self._records(after) if self._paging is None else self._pages(self._paging, after)
        self.asked(self._interval_s())

    def _records(self, after: Any) -> Iterator[Record]:
        offset = self._initial if after is None else after
        page = self.asker.page(self._ask({f"offset.{name}": text for name, text in offset.items()} | offset, None))
        made = [] if page.content is None else [self._record(one) for one in self._items(page.content)]
        new = self._filtered(self._sorted(made), {} if after is None and not self._initial else offset)
        yield from with_own_offsets(new)

    def _pages(self, paging: Paging, after: Any) -> Iterator[Record]:
        page, taken = (after[_PAGE], after[_TAKEN]) if after and _PAGE in after else (paging.first, 0)
        if self._began is not None and self._began[0] == after:
            page, taken = self._began[1], 0
        last = after
        while paging.is_there(page) and not self.stopping.is_set():
            found = self.asker.page(self._ask(paging.values(page), paging.url(page)))
            content = [] if found.content is None else self._items(found.content)
            for number, one in enumerate(content[taken:], taken + 1):
                record = self._record(one)
                last = record.offset = {**(record.offset or {}), _PAGE: page, _TAKEN: number}
                yield record
            behind = paging.after(page, found, len(content))
            if behind is None:
                return
            page, taken = behind, 0
            self._began = (last, page) if paging.ends_pages else None
            if not content and paging.waits_if_empty:
                return

    def _items(self, content: Any) -> Sequence[Any]:
        try:
            return items(content, self.config["http.response.list.pointer"])
        except NoSuchPart as error:
            raise ConfigError(_no_part("http.response.list.pointer", error)) from None

    def _interval_s(self) -> float:
        before, self._newest_before = self._newest_before, self._newest
        is_behind = before < self._newest < (time.time() - self.interval_s) * 1000
        is_adaptable = simple(self.config["http.timer"]).startswith("Adaptable")
        return self._catching_up_s if is_adaptable and is_behind else self.interval_s

    # -- requests ------------------------------------------------------------------------------------------------------

    def _ask(self, values: Mapping[str, str], url: str | None) -> Ask:
        config = self.config
        is_template = not simple(config["http.request.template.factory"]).startswith("No")

        def made(key: str, form: Callable[[str], str]) -> str:
            template = plain(config[key])
            return filled(template, values, form) if is_template else template

        body = made("http.request.body", as_is)
        if url is None:
            url = made("http.request.url", in_url)
            parts = [one.strip() for one in made("http.request.params", in_url).split("&")]
            if parameters := "&".join(filter(None, parts)):
                url += ("&" if "?" in url else "?") + parameters
        else:
            url = on_same_server(config["http.request.url"], url)
        return Ask(self.method, url, headers_of(made("http.request.headers", as_is)), body)

    # -- records -------------------------------------------------------------------------------------------------------

    def _record(self, one: Any) -> Record:
        """The record of an item. Errors: ConfigError for a part that it does not have."""
        try:
            offset = {name: text(part(one, pointer)) for name, pointer in self._pointers.items()}
            value = text(part(one, self.config["http.response.record.pointer"]))
        except NoSuchPart as error:
            raise ConfigError(_no_part("http.response.record.offset.pointer", error)) from None
        millis = int(time.time() * 1000)
        if (moment := offset.get(TIMESTAMP)) is not None:
            try:
                millis = self._parser.millis(moment)
            except UnreadableTimestamp as error:
                key = "http.response.record.timestamp.parser"
                raise ConfigError(Problem(f"{key}.pattern", self._parser.pattern, str(error), "Change it.")) from None
            offset[TIMESTAMP] = iso(millis)
            self._newest = max(self._newest, millis)
        key = offset.get(KEY) or str(uuid.UUID(bytes=md5(value.encode(), usedforsecurity=False).digest(), version=3))
        if self.is_schemed:
            struct = {"value": value, "key": key, "timestamp": millis}
            return Record(struct, {"key": key}, timestamp=millis, offset=offset or None)
        return Record(value, key, timestamp=millis, offset=offset or None)

    def _sorted(self, records: list[Record]) -> list[Record]:
        order = self.config["http.response.list.order.direction"]
        if order == "IMPLICIT":
            is_falling = bool(records) and _moment(records[0]) > _moment(records[-1])
            order = "DESC" if is_falling else "ASC"
        return records[::-1] if order == "DESC" else records

    def _filtered(self, records: Sequence[Record], offset: Mapping[str, str]) -> Iterable[Record]:
        kind = simple(self.config["http.record.filter.factory"])
        if kind.startswith("Passthrough") or not offset:
            return records
        since = self._millis_or_none(offset.get(TIMESTAMP)) if TIMESTAMP in self._pointers else None
        behind = _behind(records, offset) if kind.startswith("OffsetRecord") else None
        if since is None:
            return records if behind is None else behind
        newer = [one for one in records if _moment(one) > since]
        if behind is None or len(behind) == len(records):  # the record that was read last is not among them
            return newer
        kept = {id(one) for one in (*newer, *behind)}
        return [one for one in records if id(one) in kept]

    def _check_initial(self, moment: str | None) -> None:
        try:
            self._millis_or_none(moment)
        except UnreadableTimestamp as error:
            remedy = "Write it in milliseconds, in ISO 8601, or by the pattern of the timestamps."
            raise ConfigError(Problem("http.offset.initial", moment, f"{error}.", remedy)) from None

    def _millis_or_none(self, moment: str | None) -> int | None:
        if moment is None:
            return None
        try:
            return TimestampParser().millis(moment)
        except UnreadableTimestamp:
            return self._parser.millis(moment)


def _behind(records: Sequence[Record], offset: Mapping[str, str]) -> Sequence[Record]:
    """The records behind the last one with this offset; all if there is none."""
    last = max((number for number, one in enumerate(records) if one.offset == offset), default=-1)
    return records[last + 1 :]


def _moment(record: Record) -> int:
    assert isinstance(record.timestamp, int)
    return record.timestamp


def _no_part(key: str, error: NoSuchPart) -> Problem:
    return Problem(key, None, f"The answer does not fit: {error}.", "Check the pointers.")
