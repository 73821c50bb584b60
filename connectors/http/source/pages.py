"""From page to page: an offset names a page and how many of its records were taken, so that nothing comes twice.

    page      by number, from the first one on, until one is empty
    link      by the URL with rel="next" in the header Link
    cursor    by what a pointer names in the answer
    window    by time, one window after the other, each once it is over

The page that has no next one is asked for again, and its records beyond those taken are new. So a page's records have
to keep their places: what comes to a page comes behind them.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import httpx

from headrace.connectors.http.source.asking import AnswerRefused, Page
from headrace.connectors.http.source.pointers import part_or_none, text
from headrace.plugins.interop.http.client import masked

_LINK: Final = re.compile(r'<([^>]*)>((?:\s*;\s*[\w*-]+\s*=\s*(?:"[^"]*"|[^\s;,"]+))*)')
_NEXT: Final = re.compile(r';\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next)(?=\s*(?:;|$))', re.IGNORECASE)


class Paging(ABC):
    """A way from one page to the next; a page's name is a text."""

    first: str
    """The name of the first page."""
    ends_pages: bool = True
    """True if nothing comes to a page any more once there is one behind it, also if that one is empty."""
    waits_if_empty: bool = True
    """True if the page behind an empty one is asked for at the next poll only: a server may always name one."""

    def values(self, page: str) -> Mapping[str, str]:
        """The values of templates for this page."""
        return {}

    def url(self, page: str) -> str | None:
        """The page's URL, if it has one of its own."""
        return None

    def is_there(self, page: str) -> bool:
        """True if the page may be asked for now."""
        return True

    @abstractmethod
    def after(self, page: str, found: Page, count: int) -> str | None:
        """The name of the page after this one, which had so many records; None if there is none yet."""


@dataclass(frozen=True)
class ByNumber(Paging):
    """Pages with numbers."""

    first: str
    ends_pages: bool = False

    def values(self, page: str) -> Mapping[str, str]:
        """`page`."""
        return {"page": page}

    def after(self, page: str, found: Page, count: int) -> str | None:
        """The next number, if the page has records."""
        return str(int(page) + 1) if count else None


@dataclass(frozen=True)
class ByLink(Paging):
    """Pages that name the next one's URL in a header."""

    first: str = ""

    def url(self, page: str) -> str | None:
        """The page's name is its URL, but for the first one."""
        return page or None

    def after(self, page: str, found: Page, count: int) -> str | None:
        """The URL of the header."""
        for target, parameters in _LINK.findall(found.headers.get("link", "")):
            if _NEXT.search(parameters):
                return None if target == page else str(target)
        return None


@dataclass(frozen=True)
class ByCursor(Paging):
    """Pages that have a cursor of the next one."""

    first: str
    pointer: str
    name: str = "cursor"

    def values(self, page: str) -> Mapping[str, str]:
        """The cursor."""
        return {self.name: page}

    def after(self, page: str, found: Page, count: int) -> str | None:
        """The cursor, if there is another one."""
        value = part_or_none(found.content, self.pointer)
        cursor = "" if value is None or value is False else text(value)
        return cursor if cursor and cursor != page else None


@dataclass(frozen=True)
class ByWindow(Paging):
    """Windows of time, each named by its beginning in ms since 1970."""

    first: str
    length_ms: int
    delay_ms: int
    """The pause between a window's end and its request."""
    waits_if_empty: bool = False

    def values(self, page: str) -> Mapping[str, str]:
        """`from` and `to`, which is not part of the window, in ISO 8601; and both in ms."""
        begin, end = int(page), int(page) + self.length_ms
        return {"from": _iso(begin), "to": _iso(end), "from.millis": str(begin), "to.millis": str(end)}

    def is_there(self, page: str) -> bool:
        """True once the window is over."""
        return int(page) + self.length_ms + self.delay_ms <= time.time() * 1000

    def after(self, page: str, found: Page, count: int) -> str | None:
        """The window behind it."""
        return str(int(page) + self.length_ms)


def on_same_server(base: str, url: str) -> str:
    """The URL of a page, which may be relative. Errors: AnswerRefused for another server, which must get no login."""
    try:
        start = httpx.URL(base)
        found = start.join(url)
    except (httpx.InvalidURL, ValueError):
        raise AnswerRefused(f"The next page's URL {masked(url)!r} cannot be read") from None
    if (found.scheme, found.host, found.port) != (start.scheme, start.host, start.port):
        raise AnswerRefused(f"The next page is on another server than {masked(base)}: {masked(url)}")
    return str(found)


def _iso(millis: int) -> str:
    moment = datetime.fromtimestamp(millis / 1000, UTC)
    return moment.isoformat(timespec="milliseconds" if millis % 1000 else "seconds").replace("+00:00", "Z")
