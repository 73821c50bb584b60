"""Reports of what became of requests, as records in topics of their own.

A record after each success and each failed attempt, for each record of the request. Its headers say which record it
was; its key is that record's key.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headrace.connectors.http.sink.requests import Request
from headrace.plugins.interop.http.client import HttpAnswer
from headrace.plugins.interop.kafka.side_topics import SideTopics

_SCHEMA: Final = {"type": "string", "optional": False}


@dataclass(frozen=True)
class TextFormat:
    """Writes texts as they are, or as JSON with or without their schema."""

    is_json: bool = True
    has_schema: bool = False

    def bytes(self, text: str) -> bytes:
        """The text's bytes in a record."""
        if not self.is_json:
            return text.encode()
        value: Any = {"schema": _SCHEMA, "payload": text} if self.has_schema else text
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True)
class ReportTopic:
    """A topic of reports."""

    name: str
    key: TextFormat
    value: TextFormat


class Reports:
    """Sends no reports."""

    def open(self) -> None:
        """Do nothing."""

    def of(self, rows: pa.RecordBatch) -> BatchReports:
        """The reports on requests of these rows."""
        return BatchReports()

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class BatchReports:
    """The reports on the requests of a batch; any thread may call."""

    def sent(self, request: Request, answer: HttpAnswer) -> None:
        """Report that a request succeeded."""

    def failed(self, request: Request, message: str, answer: HttpAnswer | None) -> None:
        """Report that an attempt failed."""


NO_REPORTS: Final = Reports()


@dataclass
class TopicReports(Reports):
    """Sends reports to Kafka."""

    topics: SideTopics
    result: ReportTopic
    error: ReportTopic
    reports_answer: bool
    """True: a failed attempt is reported by the server's answer, if there is one, not by its error."""

    def open(self) -> None:
        """Make the topics. Errors: RetriableError."""
        self.topics.open()

    def of(self, rows: pa.RecordBatch) -> BatchReports:
        """The reports on requests of these rows."""
        return _BatchReports(self, rows)

    def flush(self) -> None:
        """Wait until Kafka has them. Errors: RetriableError."""
        self.topics.flush()

    def close(self) -> None:
        """Close the producer."""
        self.topics.close()


class _BatchReports(BatchReports):
    def __init__(self, of: TopicReports, rows: pa.RecordBatch) -> None:
        self._of, self._rows = of, rows

    def sent(self, request: Request, answer: HttpAnswer) -> None:
        self._send(self._of.result, request, _text(answer))

    def failed(self, request: Request, message: str, answer: HttpAnswer | None) -> None:
        is_told = self._of.reports_answer and answer is not None
        self._send(self._of.error, request, _text(answer) if is_told else message)

    def _send(self, topic: ReportTopic, request: Request, text: str) -> None:
        value = topic.value.bytes(text)
        for row in request.rows:
            key = self._rows["key"][row].as_py()
            names = ("offset", "timestamp", "partition", "topic")
            headers = {f"input_record_{name}": str(self._rows[name][row].as_py()) for name in names}
            self._of.topics.send(topic.name, None if key is None else topic.key.bytes(key), value, headers)


def _text(answer: HttpAnswer | None) -> str:
    return "" if answer is None else answer.body.decode("utf-8", "replace")
