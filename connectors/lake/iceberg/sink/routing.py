"""The tables that a record goes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from headrace.config.name_regex import NameRegex
from headrace.connectors.lake.iceberg.sink.settings import SinkOptions


@dataclass(frozen=True)
class TableRoutes:
    """Implements `files.targets.Routes` by the settings."""

    options: SinkOptions

    def __call__(self, route: str | None) -> Sequence[str]:
        """Return the tables for the text of the route field. Errors: TooSlowError."""
        options = self.options
        if options.dynamic:
            return () if route is None else (route,)
        if not options.route:
            return options.tables
        return [] if route is None else [table for table in options.tables if self._chooses(table, route)]

    def _chooses(self, table: str, route: str) -> bool:
        pattern = self.options.route_regex(table)
        return pattern is not None and route_regex(pattern).match(route) is not None


@lru_cache(maxsize=256)
def route_regex(pattern: str) -> NameRegex:
    """Return the expression. Errors: ValueError."""
    return NameRegex(pattern)
