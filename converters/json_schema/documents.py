"""JSON Schemas as documents, and the meaning of `$ref` in them.

A schema that refers to those of other subjects is kept with them as one text (`merged`), because the registry's client
knows a schema by its text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from headrace.plugins.contracts import DataError

_SCHEMA: Final = "headrace.schema"
_REFERENCED: Final = "headrace.referenced"
_IDS: Final = ("$id", "id")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")


def merged(text: str, referenced: Sequence[tuple[str, str]]) -> str:
    """One text of a schema and of those that it refers to, pairs of a reference's name and text.

    Errors: DataError, also if a name has two documents.
    """
    if not referenced:
        return text
    documents: dict[str, Any] = {}
    for name, other in referenced:
        found = _parsed(other)
        if documents.setdefault(name, found) != found:
            raise DataError(f"The schema's references give two different documents for {name}")
    return json.dumps({_SCHEMA: _parsed(text), _REFERENCED: documents})


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"The schema registry gave a JSON Schema that is not JSON: {text[:200]!r}") from error


class Documents:
    """The schema of a text, and the parts that references name."""

    def __init__(self, text: str) -> None:
        """Errors: DataError for a text that is not JSON."""
        found = _parsed(text)
        is_merged = isinstance(found, dict) and found.keys() == {_SCHEMA, _REFERENCED}
        self.root: Any = found[_SCHEMA] if is_merged else found
        self._by_url: dict[str, Any] = dict(found[_REFERENCED]) if is_merged else {}
        for name, document in [("", self.root), *list(self._by_url.items())]:
            self._note_ids(document, name)

    def _note_ids(self, document: Any, name: str) -> None:
        """Notes each part with an id or an anchor by its URL."""
        waiting = [(document, name)]
        self._by_url.setdefault(name, document)
        while waiting:
            part, base = waiting.pop()
            if isinstance(part, dict):
                for key in _IDS:
                    if isinstance(part.get(key), str):
                        base = urljoin(base, part[key]).removesuffix("#")
                        self._by_url.setdefault(base, part)
                for key in _ANCHORS:
                    if isinstance(part.get(key), str):
                        self._by_url.setdefault(f"{base}#{part[key]}", part)
            inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
            waiting += [(one, base) for one in inner]

    def resolve(self, reference: str, base: str) -> tuple[Any, str]:
        """The part that a reference names, and the URL of its document. Errors: DataError if there is none."""
        # A base such as urn:x takes no relative URL, but a fragment.
        joined = base + reference if reference.startswith("#") else urljoin(base, reference)
        for whole in (joined, reference):
            url, fragment = urldefrag(whole)
            if whole in self._by_url:
                return self._by_url[whole], url
            if url in self._by_url and (not fragment or fragment.startswith("/")):
                return _at(self._by_url[url], fragment, reference), url
        raise DataError(f"The JSON Schema refers to {reference}, which is neither in it nor among its references")


def base_of(part: Mapping[str, Any], base: str) -> str:
    """The URL that references within a part are relative to."""
    for key in _IDS:
        if isinstance(part.get(key), str):
            base = urldefrag(urljoin(base, part[key])).url
    return base


def _at(document: Any, pointer: str, reference: str) -> Any:
    try:
        for step in _steps(pointer):
            document = document[int(step)] if isinstance(document, list) else document[step]
    except (LookupError, TypeError, ValueError):
        raise DataError(f"The JSON Schema refers to {reference}, where nothing stands") from None
    return document


def _steps(pointer: str) -> Iterator[str]:
    return (unquote(step).replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
