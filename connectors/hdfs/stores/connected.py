"""The common part of stores on a network: a connection for each process, and listings in pages."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

from headrace.connectors.hdfs.stores.store import Entry, Store

CONNECTIONS: Final = 32
"""The most requests of a task side by side: a data node takes up to half a second to close one file."""
_C = TypeVar("_C")


class ConnectedStore(Store, Generic[_C]):
    """Keeps a connection in `_opened`, under `_lock`; a copy in another process opens its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: _C | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_opened")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock(), _opened=None)


class FolderStore(ConnectedStore[_C]):
    """A store whose folders are listed one by one."""

    @abstractmethod
    def _listed(self, folder: str) -> Iterator[Entry]:
        """Yield the folder's entries, read in pages; nothing if there is no such folder."""

    def entries(self, folder: str) -> list[Entry]:
        """Return the folder's entries, read in pages."""
        return list(self._listed(folder))

    def walk(self, folder: str) -> Iterator[Entry]:
        """Yield all files below, folder by folder."""
        folders = [folder]
        while folders:
            for entry in self._listed(folders.pop()):
                if entry.is_folder:
                    folders.append(entry.path)
                else:
                    yield entry
