"""The audit log: a line for each requested change with requester, address, request, answer and difference.

Routes note their changes (`ChangeOf`); the layer writes the line once the answer is on its way. A request that another
worker decides is written by both: the worker that was asked, and the one that decides. The latter adds `forwarded` if a
worker signed the request; it writes the line all the same, because otherwise a holder of the signing key could change
things unseen.

Decided: off by default, because an unconfigured worker logs each change already (`rest.access.log`), and Apache's has
no such log; loses: operators who must account for changes have to switch it on.
Decided: log levels do not silence it, because users who may set levels could change things unseen; loses: only
`rest.audit.log=none` and a restart switch it off.
Decided: failed requests are written, too, with the requested difference, because a request that timed out may still
take effect; loses: the status must be read with the line.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from typing import Annotated, Any, Final
from urllib.parse import unquote

from fastapi import Depends, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.config.worker.audit import AUDIT, AUDIT_FILE, private
from headrace.rest.http.differences import differences
from headrace.rest.http.layers import SAFE_METHODS
from headrace.rest.http.masking import Masking, MaskingOf
from headrace.rest.http.requests import HerderOf
from headrace.rest.security.principal import is_forwarded, principal_of
from headrace.worker.errors import ConnectError, NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.logging.logs import AUDIT_LOGGER, inert
from headrace.worker.logging.redaction import hide_in_line
from headrace.worker.model import Config

_log = logging.getLogger(__name__)

_NOTE: Final = "headrace.audit"
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_LONGEST: Final = 500
_MOST_KEYS: Final = 100


@dataclass
class Note:
    """The change that a request makes."""

    is_change: bool = False
    connector: str | None = None
    """The connector in the body; None: the path's."""
    details: dict[str, Any] = field(default_factory=dict)


def note_of(scope: Scope) -> Note | None:
    """The note of a request; None without an audit log."""
    note: Note | None = scope.setdefault("state", {}).get(_NOTE)
    return note


class AuditLog:
    """Writes the lines to their own file or to the worker's log."""

    def __init__(self, as_json: bool, path: str | None) -> None:
        self._as_json = as_json
        self._file = None if path is None else _File(path)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> AuditLog | None:
        """The audit log of these settings; None if it is off."""
        form = settings.get(AUDIT, "none")
        return None if form == "none" else cls(form == "json", settings.get(AUDIT_FILE))

    def write(self, line: Mapping[str, Any]) -> None:
        """Writes a line, whatever the logger's level is."""
        text = json.dumps(line) if self._as_json else _text(line)
        # Requests without login go to a logger that the worker's log rate-limits: anybody can cause many.
        logger = logging.getLogger(
            f"{AUDIT_LOGGER}.refused" if line["status"] == HTTPStatus.UNAUTHORIZED else AUDIT_LOGGER
        )
        record = logger.makeRecord(logger.name, logging.INFO, __name__, 0, text, (), None, "write")
        (self._file or logger).handle(record)


class AuditLayer:
    """Writes a line for each request for a change, and for each refused one that could be one."""

    def __init__(self, app: ASGIApp, audit: AuditLog) -> None:
        self._app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return
        note = scope.setdefault("state", {})[_NOTE] = Note()
        status = 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            if note.is_change or status in _REFUSED:
                self._audit.write(_line(scope, note, status))


class AuditedChange:
    """Notes a request's change to a connector; does nothing without an audit log."""

    def __init__(self, note: Note | None, herder: Herder, masking: Masking) -> None:
        self._note = note
        self._herder = herder
        self._masking = masking

    def creates(self, name: str, config: Config) -> None:
        """Notes that the request creates the connector."""
        if self._note is not None:
            self._note.connector = name
            self._note_difference(dict, lambda _: config)

    def configures(self, name: str, config: Config) -> None:
        """Notes the connector's new config."""
        self._note_difference(lambda: self._present(name), lambda _: config)

    def patches(self, name: str, changes: Config) -> None:
        """Notes changes to the connector's config; a null removes its key."""
        self._note_difference(
            lambda: self._present(name),
            lambda config: {key: value for key, value in {**config, **changes}.items() if value is not None},
        )

    def deletes(self, name: str) -> None:
        """Notes that the request deletes the connector."""
        self._note_difference(lambda: self._present(name), lambda _: {})

    def tells(self, **details: Any) -> None:
        """Notes any other change."""
        if self._note is not None:
            self._note.details |= {key: _shortened(json.dumps(value)) for key, value in details.items()}

    def _present(self, name: str) -> Config:
        try:
            return self._herder.connector_info(name).config
        except NotFound:
            return {}

    def _note_difference(self, before: Callable[[], Config], after: Callable[[Config], Config]) -> None:
        if self._note is None:
            return
        try:
            present = before()
            self._note.details |= difference(present, after(present), self._masking)
        except ConnectError:
            pass  # the change itself fails alike, or is forwarded to a worker that knows the config
        except Exception:
            _log.exception("The audit log lacks a difference; the change goes on")


async def _change(request: Request, herder: HerderOf, masking: MaskingOf) -> AuditedChange:
    return AuditedChange(note_of(request.scope), herder, masking)


ChangeOf = Annotated[AuditedChange, Depends(_change)]
"""Notes the request's change."""


def difference(before: Config, after: Config, masking: Masking) -> dict[str, Any]:
    """The added, removed and changed keys with their values; secrets are hidden, variables shown."""
    differing = differences(before, after, masking)
    shown = {key: [None if one is None else _shortened(one) for one in pair] for key, pair in differing.items()}
    found = {
        "added": _bounded([key for key, (was, _) in shown.items() if was is None], lambda key: shown[key][1]),
        "removed": _bounded([key for key, (_, now) in shown.items() if now is None], lambda key: shown[key][0]),
        "changed": _bounded(
            [key for key, pair in shown.items() if None not in pair],
            lambda key: {"from": shown[key][0], "to": shown[key][1]},
        ),
    }
    return {name: values for name, values in found.items() if values}


def _bounded(keys: Sequence[str], value: Callable[[str], Any]) -> dict[str, Any]:
    found = {_shortened(key): value(key) for key in keys[:_MOST_KEYS]}
    return {**found, "…": f"{len(keys) - _MOST_KEYS} more"} if len(keys) > _MOST_KEYS else found


def _line(scope: Scope, note: Note, status: int) -> dict[str, Any]:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query = f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
    path = raw.partition(b"?")[0].decode("latin-1")
    connector = note.connector if note.connector is not None else _connector_in(path)
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "who": _shortened(principal_of(scope).name),
        "from": scope["client"][0] if scope.get("client") else None,
        "method": scope["method"],
        "path": _shortened(path + query),
        **({} if connector is None else {"connector": _shortened(connector)}),
        **({"forwarded": True} if is_forwarded(scope) else {}),
        "status": status,
        **note.details,
    }


def _connector_in(path: str) -> str | None:
    parts = path.split("/")
    return unquote(parts[2]) if parts[1:2] == ["connectors"] and parts[2:3] not in ([], [""]) else None


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _text(line: Mapping[str, Any]) -> str:
    """`key=value` with values in JSON, so that no text can end one."""
    return " ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in line.items())


class _Lines(logging.Formatter):
    """A line without control characters and the worker's secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return inert(hide_in_line(record.getMessage(), quotes=True))


class _File(WatchedFileHandler):
    """Appends to a file; reopens it once it was moved or removed, as by logrotate."""

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace")
        self.setFormatter(_Lines())
        self._fails = False
        self._error: BaseException | None = None

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", errors=self.errors, opener=private)

    def emit(self, record: logging.LogRecord) -> None:
        failed, self._fails = self._fails, False
        try:
            super().emit(record)
        except OSError:  # the file cannot be reopened
            self.handleError(record)
        if self._fails and not failed:
            _log.error("Lines of the audit log are lost: %s; mend the place that %s names", self._error, AUDIT_FILE)
        elif failed and not self._fails:
            _log.warning("The audit log is written again; the lines since its last one are lost")

    def handleError(self, record: logging.LogRecord) -> None:
        self._fails, self._error = True, sys.exc_info()[1]
