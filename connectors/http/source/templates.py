"""Templates of requests, whose `${name}` are filled in with what the source knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

_HOLE: Final = re.compile(r"\$\{([^}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_][\w.-]*")
_DIRECTIVE: Final = re.compile(r"<[#@/]|\[#|#\{")
_SAFE: Final = ":@,;!$'()*~/"
"""Characters that stay in a URL; those that end a parameter or a path do not."""


def as_is(value: str) -> str:
    """The value itself, for bodies and headers."""
    return value


def in_url(value: str) -> str:
    """The value as a part of a URL."""
    return quote(value, safe=_SAFE)


def names(template: str) -> Iterator[str]:
    """The names in a template."""
    yield from _HOLE.findall(template)


def filled(template: str, values: Mapping[str, str], form: Callable[[str], str] = as_is) -> str:
    """The template with these values; a name without a value is empty."""
    return _HOLE.sub(lambda hole: form(values.get(hole[1], "")), template)


def fault(template: str) -> str | None:
    """The reason that a template is not served; None if it is."""
    wrong = next((name for name in names(template) if not _NAME.fullmatch(name)), None)
    if wrong is not None:
        return f"FreeMarker's expression ${{{wrong}}} is not served; ${{offset.name}} and ${{name}} are"
    if (found := _DIRECTIVE.search(template)) is not None:
        return f"FreeMarker's directives ({found[0]}…) are not served; ${{offset.name}} and ${{name}} are"
    return None
