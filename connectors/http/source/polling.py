"""The part that the HTTP sources share: when they ask, previews, and offsets that differ."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.http.source.asking import Asker
from headrace.plugins.contracts import TaskContext
from headrace.plugins.record_api.record import Record
from headrace.plugins.record_api.source import RecordSource
from headrace.plugins.record_api.source_task import RecordSourceTask
from headrace.plugins.stopping import StopToken

_LOOK_S: Final = 1.0
_SOON_S: Final = 0.05


class HttpSourceTask(RecordSourceTask):
    """Polls a server."""

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """As `start`, if the requests only read."""
        asked = self.author()
        asked.take(config)
        if isinstance(asked, HttpSource) and asked.method not in ("GET", "HEAD"):
            raise NotImplementedError(f"the requests are {asked.method}, which may change something in the server")
        super().start_preview(config, context)


class HttpSource(RecordSource):
    """Asks a server for records, from time to time."""

    task = HttpSourceTask
    only_reads: ClassVar[bool] = True
    interval_s: float
    """The pause between two requests, once settings are taken."""
    method: str
    """The method of its requests, once settings are taken."""
    _asker: Asker | None = None

    def made_asker(self) -> Asker:
        """The asker of these settings. Errors: ConfigError."""
        raise NotImplementedError

    def take(self, config: Mapping[str, str]) -> None:
        """Read the settings. Errors: ConfigError with all problems."""
        self.config = type(self).settings.parse(config)
        self._due: dict[str, float] = {}

    @property
    def poll_interval_s(self) -> float:  # type: ignore[override]
        """The pause between two looks at the clock."""
        return min(_LOOK_S, self.interval_s)

    @property
    def asker(self) -> Asker:
        """The asker of the task."""
        if self._asker is None:
            self._asker = self.made_asker()
        return self._asker

    def open(self) -> None:
        """Prepare to connect. Errors: ConfigError."""
        self._asker = self.made_asker()

    def close(self) -> None:
        """Close the connections, also while a poll waits for an answer."""
        if self._asker is not None:
            self._asker.client.close()

    def is_due(self, name: str = "") -> bool:
        """True if it is time to ask; waits a moment for it."""
        left_s = self._due.get(name, 0.0) - time.monotonic()
        return left_s < _SOON_S and not (left_s > 0 and self.stopping.wait(left_s))

    def asked(self, interval_s: float, name: str = "") -> None:
        """Note that all was asked for; the next time is after this interval."""
        self._due[name] = time.monotonic() + interval_s

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Problems of settings together."""
        if self.settings.problems(config):
            return []
        try:
            asked = type(self)()
            asked.worker = self.worker
            asked.take(config)
            asked.stopping = StopToken()
            asked.made_asker().client.close()
        except ConfigError as error:
            return list(error.problems)
        return []


def with_own_offsets(records: Iterable[Record]) -> Iterator[Record]:
    """Leave an offset to the last of the records in a row that have it: only then are all of them there."""
    before: Record | None = None
    for record in records:
        if before is not None:
            yield before if before.offset != record.offset else _without_offset(before)
        before = record
    if before is not None:
        yield before


def _without_offset(record: Record) -> Record:
    record.offset = None
    return record
