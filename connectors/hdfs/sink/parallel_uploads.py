"""Requests to a store, some side by side; uploads begin while the next files are written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from headrace.connectors.hdfs.stores.connected import CONNECTIONS
from headrace.connectors.hdfs.stores.store import Store

_T = TypeVar("_T")


def each(act: Callable[[_T], object], items: Iterable[_T]) -> None:
    """Act on each item, some side by side; raise the first error, once all have ended."""
    todo = list(items)
    if len(todo) < 2:
        for item in todo:
            act(item)
        return
    with _threads() as pool:
        for done in [pool.submit(act, item) for item in todo]:
            done.result()


class Uploads:
    """Uploads local files to a store; deletes them afterwards, also if an upload failed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pool: ThreadPoolExecutor | None = None
        self._begun: list[Future[None]] = []

    def begin(self, files: Mapping[str, str]) -> None:
        """Begin to upload files one after the other, to these paths by their local ones.

        The last one is seen only once all are there.
        """
        if self._pool is None:
            self._pool = _threads()
        self._begun.append(self._pool.submit(self._upload, files))

    def finish(self) -> None:
        """Wait for all uploads. Errors: RetriableError, StoreError, of the first that failed."""
        begun, self._begun = self._begun, []
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        for upload in begun:
            upload.result()

    def _upload(self, files: Mapping[str, str]) -> None:
        try:
            for local, path in files.items():
                self._store.upload(local, path)
        finally:
            for local in files:
                os.unlink(local)


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="files")
