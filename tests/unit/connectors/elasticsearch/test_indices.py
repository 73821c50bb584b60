"""The template of data streams, which several tasks write at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from headrace.connectors.elasticsearch.indices import Indices
from headrace.connectors.elasticsearch.options import Flavour
from headrace.connectors.elasticsearch.parsing import options
from headrace.connectors.elasticsearch.server import NotThere, Refused

OPTIONS = options({"name": "n", "connection.url": "h", "data.stream.enabled": "true"}, Flavour.AIVEN_OPENSEARCH)


class Templates:
    """A server's template and streams; it keeps a stream's pattern in the template."""

    def __init__(self) -> None:
        self.patterns: list[str] | None = None
        self.streams = set[str]()
        self.meanwhile: Callable[[], None] = lambda: None
        """Called once the template was read."""

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        """The answer. Errors: Refused, NotThere."""
        if path.startswith("/_data_stream/"):
            return self._stream(method, path.rpartition("/")[2])
        if method == "GET":
            return self._read()
        patterns = json.loads(body or b"")["index_patterns"]
        if not self.streams <= set(patterns):
            raise Refused("streams would no longer match a template", "illegal_argument_exception")
        self.patterns = patterns
        return {"acknowledged": True}

    def _read(self) -> Any:
        before = self.patterns
        self.meanwhile()
        if before is None:
            raise NotThere("no template")
        return {"index_templates": [{"index_template": {"index_patterns": before}}]}

    def _stream(self, method: str, name: str) -> None:
        if method == "GET" and name not in self.streams:
            raise NotThere(name)
        if method == "PUT" and name not in (self.patterns or ()):
            raise Refused("no matching index template", "illegal_argument_exception")
        self.streams.add(name)


def test_streams_of_tasks_that_begin_together_are_all_in_the_template() -> None:
    server = Templates()

    def other_task() -> None:
        server.meanwhile = lambda: None
        Indices(server, OPTIONS).ensure("b")  # type: ignore[arg-type]

    server.meanwhile = other_task
    Indices(server, OPTIONS).ensure("a")  # type: ignore[arg-type]
    assert (server.patterns, server.streams) == (["a", "b"], {"a", "b"})


def test_a_template_that_is_always_refused_is_told() -> None:
    server = Templates()
    server.streams.add("foreign")
    with pytest.raises(Refused, match="no longer match"):
        Indices(server, OPTIONS).ensure("a")  # type: ignore[arg-type]
