"""The parts that several of castorm's settings make: pointers, the parser of timestamps, pages, headers, TLS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.config.tls import TlsSettings
from headrace.connectors.http.settings import plain, required, tls_of
from headrace.connectors.http.source.castorm_settings import TIMESTAMP, pairs, simple
from headrace.connectors.http.source.pages import ByCursor, ByLink, ByNumber, ByWindow, Paging
from headrace.connectors.http.source.templates import fault, names
from headrace.connectors.http.source.timestamps import TimestampParser

_TEMPLATES: Final = ("http.request.url", "http.request.params", "http.request.headers", "http.request.body")
_OLDER: Final = "http.response.record.key.pointer"
_NAMES: Final = {
    "PAGE": ("page",),
    "LINK": (),
    "CURSOR": ("cursor",),
    "WINDOW": ("from", "to", "from.millis", "to.millis"),
}


def pointers_of(values: Mapping[str, Any]) -> dict[str, str]:
    """The pointers to the members of a record's offset, by name."""
    found = pairs(values, "http.response.record.offset.pointer")
    if older := values["http.response.record.timestamp.pointer"]:
        found.setdefault(TIMESTAMP, older)
    return found


def parser_of(values: Mapping[str, Any]) -> TimestampParser:
    """The parser of timestamps. Errors: ConfigError."""
    name = "http.response.record.timestamp.parser"
    kind, regex = simple(values[name]), None
    if kind.startswith("Regex"):
        regex = re.sub(r"\(\?<([A-Za-z])", r"(?P<\1", values[f"{name}.regex"])
        kind = simple(values[f"{name}.regex.delegate"])
        try:
            re.compile(regex)
        except re.error as error:
            raise ConfigError(Problem(f"{name}.regex", values[f"{name}.regex"], f"{error}.", "Mend it.")) from None
    return TimestampParser(values[f"{name}.pattern"], values[f"{name}.zone"], kind.startswith("EpochMillis"), regex)


def paging_of(values: Mapping[str, Any], parser: TimestampParser) -> Paging | None:
    """The way from page to page; None without one. Errors: ConfigError."""
    kind, first = values["http.paging"], values["http.paging.first"]
    try:
        match kind:
            case "PAGE":
                return ByNumber(str(int(first or "1")))
            case "LINK":
                return ByLink()
            case "CURSOR":
                required(values, "for http.paging=CURSOR", "http.paging.cursor.pointer")
                return ByCursor(first or "", values["http.paging.cursor.pointer"])
            case "WINDOW":
                required(values, "for http.paging=WINDOW", "http.paging.first")
                length, delay = values["http.paging.window.millis"], values["http.paging.window.delay.millis"]
                return ByWindow(str(parser.millis(first)), length, delay)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(Problem("http.paging.first", first, f"It fits not {kind}: {error}.", "Change it.")) from None
    return None


def check(values: Mapping[str, Any]) -> None:
    """Refuse settings that contradict each other. Errors: ConfigError."""
    problems = []
    served = _NAMES.get(values["http.paging"])
    for key in _TEMPLATES:
        template = plain(values[key])
        if why := fault(template):
            problems.append(Problem(key, None, f"{why}.", "Write it without."))
        elif served is not None and (wrong := [one for one in names(template) if one not in served]):
            what = f"With http.paging={values['http.paging']} ${{{wrong[0]}}} is not known."
            shown = ", ".join(f"${{{one}}}" for one in served) or "no templates"
            problems.append(Problem(key, None, what, f"Use {shown}."))
    if older := values[_OLDER]:
        remedy = "Write http.response.record.offset.pointer=key=/pointer."
        problems.append(Problem(_OLDER, older, "This older setting is not served.", remedy))
    try:
        headers_of(plain(values["http.request.headers"]))
    except ValueError as error:
        problems.append(Problem("http.request.headers", None, f"{error}.", "Write `name: value, name: value`."))
    if problems:
        raise ConfigError(problems)


def headers_of(text: str) -> dict[str, str]:
    """The headers of a text. Errors: ValueError, which quotes no value."""
    found = {}
    for number, item in enumerate(re.split(r"(?<!\\),", text) if text.strip() else (), 1):
        name, colon, value = item.replace("\\,", ",").partition(":")
        if not colon or not name.strip():
            raise ValueError(f"The item {number} is not name: value")
        if not (value.isascii() and value.strip().isprintable()):
            raise ValueError(f"The header {name.strip()} has characters that HTTP cannot carry")
        found[name.strip()] = value.strip()
    return found


def tls_of_client(values: Mapping[str, Any]) -> TlsSettings:
    """The TLS settings, with the certificate of `http.client.keystore`."""
    store = values["http.client.keystore"]
    if not store:
        return tls_of(values)
    own = {"https.ssl.keystore.location": store, "https.ssl.keystore.password": values["http.client.keystore.password"]}
    return tls_of({**values, **own})
