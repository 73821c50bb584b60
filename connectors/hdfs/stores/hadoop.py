"""Any of Hadoop's file systems as a store, through Hadoop's client in the driver's JVM.

It serves what WebHDFS cannot: `hdfs:` without the addresses of WebHDFS, `viewfs:`, and all with Kerberos.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JNetworkError

from headrace.config.problems import ConfigError
from headrace.config.worker.allowed_hosts import HostUnknown
from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.stores.connected import FolderStore
from headrace.connectors.hdfs.stores.hadoop_conf import client_hosts, properties
from headrace.connectors.hdfs.stores.hadoop_errors import MISSING, TAKEN, error_of
from headrace.connectors.hdfs.stores.hadoop_jvm import context_of_worker, file_system, java_error, renew_login
from headrace.connectors.hdfs.stores.range_reader import by_ranges
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.connectors.hdfs.stores.store import Entry, checked_path
from headrace.plugins.contracts import Place
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.catalyst.spark_internals import JAVA_ERRORS, jvm_of
from headrace.plugins.scratch import memory_folder

_TRIES: Final = 3
_FEW_BYTES: Final = 8_000
"""More bytes come through a file: over py4j itself 64 MiB took 5 s, measured."""


class HadoopStore(FolderStore[tuple[Any, Any]]):
    """A folder of one of Hadoop's file systems; only the worker's process can use it."""

    place: ClassVar[Place] = Place.WORKER_PROCESS

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__()
        parts = urlsplit(settings.url)
        self._settings, self._hosts = settings.hadoop, settings.hosts
        self._scheme, self._host = parts.scheme, parts.netloc.rpartition("@")[2]
        self._root = unquote(parts.path).rstrip("/")
        self.url = f"{self._scheme}://{self._host}{self._root}"

    def exists(self, path: str) -> bool:
        """True if the name is taken."""
        try:
            return bool(self._ask(f"look at '{path}' in", lambda files: files.exists(self._place(path))))
        except NotADirectoryError:
            return False

    def create(self, path: str) -> None:
        """Create an empty file; Hadoop creates its folders."""
        self._ask(f"create '{path}' in", lambda files: files.create(self._full(path), False).close())

    def upload(self, local: str, path: str) -> None:
        """Have the JVM copy the file."""

        def copy(files: Any) -> None:
            if files.exists(self._full(path)) and files.getFileStatus(self._full(path)).isDirectory():
                raise StoreError(f"Could not write '{path}' in {self.url}: it is a folder. Remove that folder.")
            files.copyFromLocalFile(False, True, self._path("file", None, local), self._full(path))

        self._ask(f"write '{path}' in", copy)

    def rename(self, source: str, target: str) -> bool:
        """Rename in one step. HDFS never renames over a file, and its answer does not tell why it did not."""
        doing = f"rename '{source}' to '{target}' in"
        for _ in range(_TRIES):  # a cleaner may delete an empty folder between the steps
            if self.exists(target):
                if self.exists(source):
                    raise FileExistsError(f"'{target}' in {self.url}")
                return False
            if self._ask(doing, lambda files: files.rename(self._full(source), self._full(target))):
                return True
            if not self.exists(source):
                return False
            self._ask(doing, lambda files: files.mkdirs(self._full(target).getParent()))
        raise RetriableError(f"Could not {doing} {self.url}: its folder is deleted over and over; it is tried again.")

    def delete(self, path: str) -> None:
        """Delete the file or the whole folder, past HDFS's trash."""
        self._ask(f"delete '{path}' in", lambda files: files.delete(self._full(path), True))

    def open(self, path: str) -> pa.NativeFile:
        """Open the file; each read goes through the JVM."""
        doing = f"read '{path}' in"

        def opened(files: Any) -> tuple[int, Any]:
            return files.getFileStatus(self._full(path)).getLen(), files.open(self._full(path))

        size, stream = self._ask(doing, opened)

        def read(offset: int, length: int) -> bytes:
            found: bytes = self._ask(doing, lambda _: _bytes(stream, offset, length))
            if len(found) != length:
                raise RetriableError(f"Could not {doing} {self.url}: it has become shorter; it is tried again.")
            return found

        def close() -> None:
            with suppress(Py4JError, *JAVA_ERRORS, OSError):  # its JVM is gone, or it was closed with its store
                stream.close()

        return by_ranges(size, read, close)

    def close(self) -> None:
        """Close the file system of this store."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            try:
                opened[1].close()
            except (Py4JError, OSError):
                return  # its JVM is gone, or its connection

    def _path(self, scheme: str, host: str | None, path: str) -> Any:
        return jvm_of(context_of_worker()).org.apache.hadoop.fs.Path(scheme, host, path)

    def _full(self, path: str) -> Any:
        return self._path(self._scheme, self._host or None, f"{self._root}/{checked_path(path)}")

    def _place(self, path: str) -> Any:
        return self._full(path) if path else self._path(self._scheme, self._host or None, self._root or "/")

    def _listed(self, folder: str) -> Iterator[Entry]:
        doing, place = f"list '{folder}' in", self._place(folder)
        try:
            found = self._ask(doing, lambda files: files.listStatusIterator(place))
            while self._ask(doing, lambda _: found.hasNext()):
                status = self._ask(doing, lambda _: found.next())
                if status.getPath().equals(place):
                    return  # it is a file
                name = status.getPath().getName()
                path = f"{folder}/{name}" if folder else name
                yield Entry(path, status.isDirectory(), status.getLen(), status.getModificationTime())
        except (FileNotFoundError, NotADirectoryError):
            return

    def _files(self) -> Any:
        context = context_of_worker()
        with self._lock:
            if self._opened is None or self._opened[0] is not context:  # Spark's JVM was started again
                root = f"{self._scheme}://{self._host}/"
                for host in client_hosts(root, properties(self._settings.conf_dir)):
                    self._hosts.check("store.url", host)
                self._opened = (context, file_system(context, self._settings, root))
            elif self._settings.kerberos:
                renew_login(jvm_of(context), self._settings)
            return self._opened[1]

    def _ask(self, doing: str, asked: Callable[[Any], Any]) -> Any:
        """Return the answer. Errors: as Store's methods; FileNotFoundError, NotADirectoryError, FileExistsError."""
        try:
            return asked(self._files())
        except JAVA_ERRORS as error:
            raise self._meaning(f"{doing} {self.url}", error) from error
        except ConfigError as error:
            raise StoreError(f"Could not {doing} {self.url}: {error}") from error
        except HostUnknown as error:
            raise RetriableError(f"Could not {doing} {self.url}: {error} It is tried again.") from error
        except (Py4JNetworkError, OSError) as error:
            if isinstance(error, FileNotFoundError | FileExistsError | NotADirectoryError):
                raise
            text = f"Could not {doing} {self.url}: Spark's JVM does not answer ({error}); it is tried again."
            raise RetriableError(text) from error

    def _meaning(self, doing: str, error: Exception) -> Exception:
        kind, message = java_error(error)
        if kind == MISSING:
            return FileNotFoundError(message)
        if kind == TAKEN:
            return FileExistsError(message)
        if "is not a directory" in message.lower():
            return NotADirectoryError(message)
        return error_of(doing, kind, message)


def _bytes(stream: Any, offset: int, length: int) -> bytes:
    stream.seek(offset)
    if length <= _FEW_BYTES:
        return bytes(stream.readNBytes(length))
    jvm = jvm_of(context_of_worker())
    with tempfile.NamedTemporaryFile(dir=memory_folder()) as file:
        target = jvm.java.io.FileOutputStream(file.name)
        try:
            jvm.org.apache.commons.io.IOUtils.copyLarge(stream, target, 0, length)
        finally:
            target.close()
        return file.read()
