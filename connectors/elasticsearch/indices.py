"""Sees to it that what documents are written into is there, with its mapping."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.config.settings import ConfigError, Problem
from headrace.connectors.elasticsearch.options import Flavour, SinkOptions
from headrace.connectors.elasticsearch.server import NotThere, Refused, Server, ServerBusy, path_of
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.http.client import ServerUnavailable

log = logging.getLogger(__name__)

_THERE: Final = "resource_already_exists_exception"
_PRIORITY: Final = 200
_TEMPLATE_TRIES: Final = 10
"""The tries to get a stream into the template, which all tasks of a connector write."""


class Indices:
    """The indices, aliases and data streams of one sink; each is looked at once."""

    def __init__(self, server: Server, options: SinkOptions) -> None:
        self._server, self._options = server, options
        self._there = set[str]()
        self._mapped = set[str]()

    def forget(self) -> None:
        """Look again, since something has gone."""
        self._there.clear()
        self._mapped.clear()

    def ensure(self, name: str, mapping: str | None = None) -> None:
        """Make what is not there, with this mapping, unless it has one.

        Errors: RetriableError; ConfigError if it has to be there; LoginRefused, ServerError.
        """
        if name in self._there and (mapping is None or name in self._mapped):
            return
        with asking():
            if name not in self._there:
                self._make(name, mapping)
                self._there.add(name)
            if mapping is not None and name not in self._mapped and not self._has_mapping(name):
                self._server.ask("PUT", f"{path_of(name)}/_mapping", mapping.encode())
                log.info("The index %s has a mapping by the schema of its first record now", name)
        if mapping is not None:
            self._mapped.add(name)

    def has_mapping(self, name: str) -> bool:
        """True if the index has fields, or is made with some. Errors: as `ensure`."""
        self.ensure(name)
        if name not in self._mapped:
            with asking():
                if not self._has_mapping(name):
                    return False
            self._mapped.add(name)
        return True

    def is_there(self, name: str) -> bool:
        """True if it is there; makes nothing. Errors: as `ensure`."""
        with asking():
            return self._is_there(name)

    def _make(self, name: str, mapping: str | None) -> None:
        options = self._options
        if self._is_there(name):
            return
        if not options.creates:
            raise self._missing(name)
        if options.stream is not None:
            self._make_stream(name)
            return
        body = "{}" if mapping is None else f'{{"mappings":{mapping}}}'
        self._put(path_of(name), body)
        log.info("The index %s is made", name)

    def _make_stream(self, name: str) -> None:
        assert self._options.stream is not None
        template = self._options.stream.template
        for left in reversed(range(_TEMPLATE_TRIES)):
            try:
                if template is not None:
                    self._extend(template, name)
                self._put(path_of("_data_stream", name), None)
                break
            except Refused:  # another task's stream may have come into the template, or ours have gone from it
                if template is None or not left:
                    raise
        log.info("The data stream %s is made", name)

    def _extend(self, template: str, name: str) -> None:
        """Make the template, or have it take this stream, too."""
        field = self._options.timestamp_fields[0]
        own = {} if field == "@timestamp" else {"timestamp_field": {"name": field}}
        patterns = sorted({*self._patterns(template), name})
        body = {"index_patterns": patterns, "data_stream": own, "priority": _PRIORITY}
        self._server.ask("PUT", path_of("_index_template", template), json.dumps(body).encode())

    def _patterns(self, template: str) -> list[str]:
        """The streams of the template, which has to keep them."""
        try:
            (found,) = self._server.ask("GET", path_of("_index_template", template))["index_templates"]
        except NotThere:
            return []
        return list(found["index_template"]["index_patterns"])

    def _put(self, path: str, body: str | None) -> None:
        try:
            self._server.ask("PUT", path, None if body is None else body.encode())
        except Refused as error:
            if error.kind != _THERE:  # another task was faster
                raise

    def _is_there(self, name: str) -> bool:
        try:
            is_stream = self._options.stream is not None
            self._server.ask("GET", path_of("_data_stream", name) if is_stream else f"{path_of(name)}/_mapping")
        except NotThere:
            return False
        return True

    def _has_mapping(self, name: str) -> bool:
        found = self._server.ask("GET", f"{path_of(name)}/_mapping")
        return any(one.get("mappings", {}).get("properties") for one in found.values())

    def _missing(self, name: str) -> ConfigError:
        is_confluents = self._options.flavour is Flavour.CONFLUENT
        key = "topic.to.external.resource.mapping" if is_confluents else "topic.to.existing.resource.mapping"
        what = f"{self._server.where} has no {self._options.kind} {name}."
        return ConfigError(Problem(key, name, what, "Make it first, or correct its name."))


@contextmanager
def asking() -> Iterator[None]:
    """Raises what may pass as a RetriableError."""
    try:
        yield
    except (ServerUnavailable, ServerBusy) as error:
        raise RetriableError(str(error)) from error
