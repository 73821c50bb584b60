"""HDFS as a store, by WebHDFS.

Decided: a change whose answer is lost is not sent again here, because it may have been carried out: the caller gets a
RetriableError and looks anew. Loses: a few changes that a second try would have shown to be undone.
"""

from __future__ import annotations

import getpass
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import hdfs
import pyarrow as pa
import requests
from hdfs.client import _Request
from hdfs.util import HdfsError

from headrace.config.problems import ConfigError
from headrace.config.worker.allowed_hosts import HostUnknown
from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.stores.connected import CONNECTIONS, FolderStore
from headrace.connectors.hdfs.stores.gated_session import GatedAdapter
from headrace.connectors.hdfs.stores.hadoop_errors import MISSING, TAKEN, error_of
from headrace.connectors.hdfs.stores.range_reader import by_ranges
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.connectors.hdfs.stores.store import Entry, checked_path
from headrace.plugins.errors import RetriableError

logging.getLogger("hdfs.client").setLevel(logging.WARNING)  # it tells of each of its objects
_CONNECT_S: Final = 10
_ANSWER_S: Final = 120
_TRIES: Final = 3


class _AnswerLost(Exception):
    """A change was sent and no answer came."""


class _Client(hdfs.InsecureClient):  # type: ignore[misc]
    """HdfsCLI's client, which asks the name nodes in turn, with two more operations."""

    _list_page = _Request("GET").to_method("LISTSTATUS_BATCH")

    def resolve(self, hdfs_path: str) -> str:
        """Return the path unchanged: names with HdfsCLI's marker `#LATEST` are names."""
        return hdfs_path

    def _request(self, method: str, url: str, **arguments: Any) -> requests.Response:
        try:
            answer: requests.Response = super()._request(method, url, **arguments)
            return answer
        except requests.ConnectTimeout:
            raise
        except (requests.ConnectionError, requests.ReadTimeout) as error:
            if method == "GET" or _never_sent(error):
                raise
            raise _AnswerLost(str(error)) from error


class WebHdfsStore(FolderStore[_Client]):
    """A folder of HDFS."""

    def __init__(self, settings: StoreSettings, addresses: list[str]) -> None:
        super().__init__()
        self._addresses = addresses
        self._user = settings.hadoop.user
        self._hosts = settings.hosts
        parts = urlsplit(settings.url)
        self._root = unquote(parts.path).rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{self._root}"

    def exists(self, path: str) -> bool:
        """True if the name is taken."""
        return self._status(path) is not None

    def create(self, path: str) -> None:
        """Create an empty file; HDFS creates its folders."""
        self._write("create", path, b"", overwrite=False)

    def upload(self, local: str, path: str) -> None:
        """Write the file to data nodes; it is complete once the last of them has it."""
        try:
            with open(local, "rb") as data:
                self._write("write", path, data, overwrite=True)
        except FileExistsError as error:
            raise StoreError(f"Could not write '{path}' in {self.url}: it is a folder. Remove that folder.") from error

    def rename(self, source: str, target: str) -> bool:
        """Rename by the name node, in one step."""
        doing, full = f"rename '{source}' to '{target}' in", self._full(target)
        asked = partial(self._client()._rename, self._full(source), destination=full, renameoptions="NONE")
        for _ in range(_TRIES):  # a cleaner may delete an empty folder between the two steps
            try:
                self._ask(doing, asked)
                return True
            except FileNotFoundError:
                if not self.exists(source):
                    return False
                self._ask(doing, lambda: self._client()._mkdirs(full.rpartition("/")[0]))
        raise RetriableError(f"Could not {doing} {self.url}: its folder is deleted over and over; it is tried again.")

    def delete(self, path: str) -> None:
        """Delete the file or the whole folder, past HDFS's trash."""
        full = self._full(path)
        self._ask(f"delete '{path}' in", lambda: self._client()._delete(full, recursive=True))

    def open(self, path: str) -> pa.NativeFile:
        """Open the file; each read is a request."""
        status = self._status(path)
        if status is None or status["type"] == "DIRECTORY":
            raise FileNotFoundError(f"'{path}' in {self.url}")
        return by_ranges(status["length"], partial(self._read, path))

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._opened is not None:
                self._opened._session.close()
                self._opened = None

    def _client(self) -> _Client:
        with self._lock:
            if self._opened is None:
                user = self._user or getpass.getuser()
                addresses = ";".join(self._addresses)
                session = requests.Session()
                for scheme in ("http://", "https://"):
                    session.mount(scheme, GatedAdapter(self._hosts, pool_maxsize=CONNECTIONS))
                self._opened = _Client(addresses, user=user, timeout=(_CONNECT_S, _ANSWER_S), session=session)
            return self._opened

    def _full(self, path: str) -> str:
        return f"{self._root}/{checked_path(path)}"

    def _place(self, path: str) -> str:
        return self._full(path) if path else self._root or "/"

    def _status(self, path: str) -> Mapping[str, Any] | None:
        place = self._place(path)
        try:
            answer = self._ask(f"look at '{path}' in", lambda: self._client()._get_file_status(place))
        except (FileNotFoundError, NotADirectoryError):
            return None
        found: Mapping[str, Any] = answer.json()["FileStatus"]
        return found

    def _listed(self, folder: str) -> Iterator[Entry]:
        place, last, first, more = self._place(folder), "", None, True
        while more:
            # Name nodes of Hadoop 3.5 know the parameter in small letters only, HttpFS as it is documented.
            asked = partial(self._client()._list_page, place, startAfter=last, startafter=last)
            try:
                listing = self._ask(f"list '{folder}' in", asked).json()["DirectoryListing"]
            except (FileNotFoundError, NotADirectoryError):
                return  # it is not there, or was deleted between two pages
            found = listing["partialListing"]["FileStatuses"]["FileStatus"]
            if not found or not found[0]["pathSuffix"]:  # empty, or no folder but a file
                return
            if found[0]["pathSuffix"] == first:
                raise StoreError(f"Could not list '{folder}' in {self.url}: LISTSTATUS_BATCH ignores startAfter there.")
            first, last = found[0]["pathSuffix"], found[-1]["pathSuffix"]
            yield from (_entry(folder, status) for status in found)
            more = listing["remainingEntries"] > 0

    def _write(self, verb: str, path: str, data: Any, overwrite: bool) -> None:
        full, client, doing = self._full(path), self._client(), f"{verb} '{path}' in"
        text = str(overwrite).lower()
        place = self._ask(doing, lambda: client._create(full, overwrite=text)).headers["location"]
        self._ask(doing, lambda: _good(client._request("PUT", place, data=data)))

    def _read(self, path: str, offset: int, length: int) -> bytes:
        asked = partial(self._client()._open, self._full(path), offset=offset, length=length)
        found: bytes = self._ask(f"read '{path}' in", lambda: asked().content)
        if len(found) != length:
            raise RetriableError(f"Could not read '{path}' in {self.url}: it has become shorter; it is tried again.")
        return found

    def _ask(self, doing: str, asked: Callable[[], Any]) -> Any:
        """Return the answer. Errors: as Store's methods; FileNotFoundError, NotADirectoryError, FileExistsError."""
        doing = f"{doing} {self.url}"
        try:
            return asked()
        except HdfsError as error:
            raise _meaning(doing, error) from error
        except ConfigError as error:
            raise StoreError(f"Could not {doing}: {error}") from error
        except HostUnknown as error:
            raise RetriableError(f"Could not {doing}: {error} It is tried again.") from error
        except _AnswerLost as error:
            text = f"Could not {doing}: the answer was lost, so it may have been done ({error}); it is looked at anew."
            raise RetriableError(text) from error
        except requests.RequestException as error:
            asked_of = ", ".join(self._addresses)
            raise error_of(f"{doing} ({asked_of})", "ConnectException", _short(error)) from error


def _entry(folder: str, status: Mapping[str, Any]) -> Entry:
    path = f"{folder}/{status['pathSuffix']}" if folder else status["pathSuffix"]
    return Entry(path, status["type"] == "DIRECTORY", status["length"], status["modificationTime"])


def _meaning(doing: str, error: HdfsError) -> Exception:
    message = error.message.decode(errors="replace") if isinstance(error.message, bytes) else str(error.message)
    kind = error.exception or ("SecurityException" if message.startswith("Authentication") else "IOException")
    if kind == MISSING:
        return FileNotFoundError(message)
    if kind == TAKEN or "must both be directories" in message:
        return FileExistsError(message)
    if "is not a directory" in message.lower():
        return NotADirectoryError(message)
    return error_of(doing, kind, message)


def _good(answer: requests.Response) -> requests.Response:
    """Return a data node's answer if it is good. Errors: HdfsError."""
    if answer.ok:
        return answer
    try:
        told = answer.json()["RemoteException"]
    except (ValueError, KeyError, TypeError):
        raise HdfsError(f"HTTP {answer.status_code} {answer.reason}: {answer.text[:200]}") from None
    raise HdfsError("%s", told["message"], exception=told["exception"])


def _never_sent(error: Exception) -> bool:
    """True if no connection was made, so that the server has heard nothing."""
    return "NewConnectionError" in repr(error) or "ConnectTimeout" in repr(error)


def _short(error: requests.RequestException) -> str:
    return str(error).rpartition(": ")[2].strip("')\" ") or type(error).__name__
