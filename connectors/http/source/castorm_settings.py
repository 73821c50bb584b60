"""The settings of castorm's HTTP source, by its names, and a few of our own (`http.paging.*`, `https.ssl.*`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.config.validators import All, Check, OneOf, OneOfIgnoringCase, OrNull, Range
from headrace.config.values import invalid
from headrace.connectors.http.attempts import statuses_problem
from headrace.connectors.http.settings import TLS, URL, number, option
from headrace.connectors.http.source.pointers import pointer_problem
from headrace.connectors.http.source.templates import fault
from headrace.connectors.http.source.timestamps import DEFAULT, pattern_problem, zone_problem

TIMESTAMP: Final = "timestamp"
KEY: Final = "key"


def _class_of(*served: str) -> Check:
    def problem(name: str, value: Any) -> str | None:
        if simple(value) in served:
            return None
        return invalid(name, value, f"It is not served; {' and '.join(served)} are")

    return Check(problem, "the class " + " or ".join(served))


def simple(class_name: str) -> str:
    """A class's name without its package."""
    return class_name.rpartition(".")[2]


def _template_problem(name: str, value: Any) -> str | None:
    why = fault(value or "")
    return invalid(name, value, why) if why else None


def _pairs_problem(name: str, value: Any) -> str | None:
    for item in filter(None, (one.strip() for one in (value or "").split(","))):
        key, equals, _ = item.partition("=")
        if not equals or not key.strip():
            return invalid(name, value, f"'{item}' is not name=value")
    return None


def _pointers_problem(name: str, value: Any) -> str | None:
    for pointer in _pairs_of(value).values():
        if why := pointer_problem(name, pointer):
            return why
    return _pairs_problem(name, value)


def _pairs_of(text: str | None) -> dict[str, str]:
    items = [one.partition("=") for one in (text or "").split(",") if one.strip()]
    return {key.strip(): value.strip() for key, _, value in items}


def pairs(values: Mapping[str, Any], name: str) -> dict[str, str]:
    """The pairs of a setting, written as `name=value,…`."""
    return _pairs_of(values[name])


_POINTER: Final = Check(pointer_problem, "a JSON pointer, such as /items")
_TEMPLATE: Final = Check(_template_problem, "a text with ${offset.name} or ${name}")
_STATUSES: Final = Check(statuses_problem, "statuses and ranges, such as 200..299")
_PARSERS: Final = (
    "EpochMillisOrDelegateTimestampParser",
    "EpochMillisTimestampParser",
    "DateTimeFormatterTimestampParser",
    "RegexTimestampParser",
)


def _text(name: str, default: Any, text: str, validator: Any = None, importance: Any = Importance.MEDIUM) -> Setting:
    return option(name, Type.STRING, default, text, validator, importance)


def _class(name: str, text: str, *served: str) -> Setting:
    """A setting that names one of these classes, the first one by default."""
    return _text(name, served[0], text, _class_of(*served), Importance.LOW)


_REQUEST: Final = Settings(
    _text("kafka.topic", REQUIRED, "The topic of the records.", importance=Importance.HIGH),
    _text("http.request.url", REQUIRED, "The URL; may be a template.", All(URL, _TEMPLATE), Importance.HIGH),
    _text("http.request.method", "GET", "The method.", OneOf("GET", "HEAD", "POST", "PUT", "PATCH")),
    option(
        "http.request.headers",
        Type.PASSWORD,
        "",
        r"Headers, as `name: value, name: value`; `\,` is a comma; a template.",
    ),
    option("http.request.params", Type.PASSWORD, "", "Parameters, as `a=b & c=d`, encoded; a template."),
    option("http.request.body", Type.PASSWORD, "", "The body; a template."),
    _class("http.request.factory", "How requests are made.", "TemplateHttpRequestFactory"),
    _class(
        "http.request.template.factory",
        "How templates are filled in.",
        "BackwardsCompatibleFreeMarkerTemplateFactory",
        "FreeMarkerTemplateFactory",
        "NoTemplateFactory",
    ),
    _text(
        "http.offset.initial", "", "The offset before there is one, as `name=value,…`.", Check(_pairs_problem, "pairs")
    ),
    _class("http.timer", "When it is polled.", "AdaptableIntervalTimer", "FixedIntervalTimer"),
    number("http.timer.interval.millis", 60000, "The pause between two polls.", 1),
    number("http.timer.catchup.interval.millis", 30000, "The pause as long as records are older than the interval.", 1),
    *(
        option(f"http.throttler.{one}", Type.INT, None, f"An older name of http.timer.{one}.", OrNull(Range(1)))
        for one in ("interval.millis", "catchup.interval.millis")
    ),
)
_CLIENT: Final = Settings(
    _class("http.client", "The client.", "OkHttpClient"),
    number("http.client.connection.timeout.millis", 2000, "The longest wait for a connection.", 1),
    number("http.client.read.timeout.millis", 2000, "The longest wait for an answer.", 1),
    number("http.client.ttl.millis", 300000, "How long an idle connection is kept.", 1),
    number("http.client.max-idle", 1, "How many idle connections are kept."),
    _text("http.client.proxy.host", "", "The host of an HTTP proxy; empty: none."),
    number("http.client.proxy.port", 3128, "The proxy's port.", 1, 65535),
    _text("http.client.proxy.username", "", "The user of the proxy, if it asks for a login."),
    option("http.client.proxy.password", Type.PASSWORD, "", "The password of the proxy's user."),
    _text("http.client.keystore", "", "A PKCS12 store with the client's certificate."),
    option("http.client.keystore.password", Type.PASSWORD, "", "The store's password."),
    _class("http.auth", "The login.", "ConfigurableHttpAuthenticator"),
    _text("http.auth.type", "None", "None or Basic.", OneOfIgnoringCase("None", "Basic")),
    _text("http.auth.user", "", "The user, for Basic."),
    option("http.auth.password", Type.PASSWORD, "", "The password, for Basic."),
)
_RESPONSE: Final = Settings(
    _class("http.response.parser", "How answers are read.", "PolicyHttpResponseParser", "KvHttpResponseParser"),
    _class("http.response.policy", "Which answers are read.", "StatusCodeHttpResponsePolicy"),
    _text("http.response.policy.codes.process", "200..299", "The statuses of answers with records.", _STATUSES),
    _text("http.response.policy.codes.skip", "300..399", "The statuses of answers without records.", _STATUSES),
    _text("http.response.list.pointer", "/", "Where the records are in the answer.", _POINTER),
    _text("http.response.record.pointer", "/", "Where the value is in a record.", _POINTER),
    _text(
        "http.response.record.offset.pointer",
        "",
        "Where a record's offset is, as `name=/pointer,…`; key and timestamp are the record's own.",
        Check(_pointers_problem, "pairs of a name and a JSON pointer"),
    ),
    _text("http.response.record.key.pointer", None, "An older way to name the key's pointers."),
    _text("http.response.record.timestamp.pointer", None, "An older way to name the timestamp's pointer.", _POINTER),
    _class("http.response.record.timestamp.parser", "How timestamps are read.", *_PARSERS),
    _text(
        "http.response.record.timestamp.parser.pattern",
        DEFAULT,
        "The pattern of timestamps.",
        Check(pattern_problem, "a pattern of DateTimeFormatter"),
    ),
    _text(
        "http.response.record.timestamp.parser.zone",
        "UTC",
        "The zone of timestamps that name none.",
        Check(zone_problem, "a time zone"),
    ),
    _text("http.response.record.timestamp.parser.regex", ".*", "What a timestamp is in its text."),
    _class(
        "http.response.record.timestamp.parser.regex.delegate", "How it is read then.", *_PARSERS[2:3], *_PARSERS[:2]
    ),
    _class(
        "http.response.record.mapper",
        "What records become: structs, or texts.",
        "SchemedKvSourceRecordMapper",
        "StringKvSourceRecordMapper",
    ),
    _class("http.record.sorter", "How an answer's records are sorted.", "OrderDirectionSourceRecordSorter"),
    _text("http.response.list.order.direction", "IMPLICIT", "ASC, DESC or IMPLICIT.", OneOf("ASC", "DESC", "IMPLICIT")),
    _class(
        "http.record.filter.factory",
        "Which records are new.",
        "OffsetRecordFilterFactory",
        "OffsetTimestampRecordFilterFactory",
        "PassthroughRecordFilterFactory",
    ),
)
_PAGING: Final = Settings(
    _text(
        "http.paging",
        "NONE",
        "From page to page: NONE, PAGE (by number), LINK (by the header Link), CURSOR, or WINDOW (of time).",
        OneOf("NONE", "PAGE", "LINK", "CURSOR", "WINDOW"),
    ),
    _text("http.paging.first", None, "The first page's number, the first cursor, or the first window's begin."),
    _text("http.paging.cursor.pointer", "", "Where the next page's cursor is in the answer, for CURSOR.", _POINTER),
    number("http.paging.window.millis", 3_600_000, "The length of a window, for WINDOW.", 1),
    number("http.paging.window.delay.millis", 0, "How long after its end a window is asked for, for WINDOW."),
)
SETTINGS: Final = _REQUEST + _CLIENT + _RESPONSE + _PAGING + TLS
