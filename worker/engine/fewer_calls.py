"""Fewer calls into the JVM than py4j makes by itself: half of those that a task's expressions took.

    names      `jvm.functions.lit`: what a name stands for is asked once, not at each mention
    releases   objects that Python has let go of: one message for many, not a call for each

The expressions of a file source take 410 calls, and took another 175 for names and 290 for releases: 100 ms, and 75 so
(processor time of both sides 132 and 105 ms; two cores, the JVM warm).

Decided: subclasses of py4j's view of the JVM, which pyspark takes from the gateway, and not another `functions` module,
because plugins call pyspark's; loses: names inside py4j, which a test uses. What a name stands for is settled by its
first use: classes have to be imported before (`java_import`).
"""

from __future__ import annotations

import logging
import threading
import time
from queue import SimpleQueue
from typing import Any, Final

from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from py4j.protocol import (
    END_COMMAND_PART,
    ENTRY_POINT_OBJECT_ID,
    GATEWAY_SERVER_OBJECT_ID,
    MEMORY_COMMAND_NAME,
    MEMORY_DEL_SUBCOMMAND_NAME,
)

_GATHER_S: Final = 0.1
_MOST: Final = 1000
"""So many releases are one message, whose answers fit into the socket's buffer."""
_NEVER: Final = {ENTRY_POINT_OBJECT_ID, GATEWAY_SERVER_OBJECT_ID}
"""The names of what the JVM keeps for itself."""
_DONE: Final = b"!yv\n"

log = logging.getLogger(__name__)


def fewer_calls(gateway: Any) -> None:
    """Let what goes through this new gateway take fewer calls; call it before pyspark takes `gateway.jvm`."""
    gateway.jvm = _View(gateway.jvm)
    if hasattr(gateway._gateway_client, "finalizer_deque"):  # not with PYSPARK_PIN_THREAD=false
        _Releases(gateway._gateway_client).take_over()


class _Asked:
    """Comes before a class of py4j, whose attributes are asked of the JVM: each is so once, if it is no value."""

    def __init__(self, of_py4j: Any) -> None:
        self.__dict__.update(of_py4j.__dict__)

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)  # type: ignore[misc]  # py4j's
        if type(found) is JavaPackage:
            found = _Package(found)
            if name.rpartition(".")[2][:1].isupper():
                return found  # py4j calls what it does not know a package: it may be a class that is loaded later
        elif type(found) is JavaClass:
            found = _Class(found)
        elif not isinstance(found, JavaMember):
            return found  # a static field, whose value may change
        self.__dict__[name] = found
        return found


class _View(_Asked, JVMView):  # type: ignore[misc]  # py4j has no types
    pass


class _Package(_Asked, JavaPackage):  # type: ignore[misc]  # py4j has no types
    pass


class _Class(_Asked, JavaClass):  # type: ignore[misc]  # py4j has no types
    pass


_Package.__name__, _Class.__name__ = JavaPackage.__name__, JavaClass.__name__  # pyspark looks for them in error texts


class _Releases:
    """Tells the JVM which of its objects Python holds no more; stands where py4j's client has a deque for that."""

    def __init__(self, client: Any) -> None:
        self._client = client
        # Its `put` may interrupt itself, as it has to where objects are finalized.
        self._queue: SimpleQueue[Any] = SimpleQueue()

    def take_over(self) -> None:
        """Take the place of py4j's own thread, which ends."""
        before, self._client.finalizer_deque = self._client.finalizer_deque, self
        before.appendleft(SHUTDOWN_FINALIZER_WORKER)
        threading.Thread(target=self._run, name="py4j-releases", daemon=True).start()

    def appendleft(self, task: Any) -> None:
        """A client and an object's name, as py4j puts them into its deque, or the mark that it ends."""
        self._queue.put(task)

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            names, goes_on = self._gathered()
            try:
                self._release(names)
            except Exception as error:
                self._release_again(names, error)
            if len(names) < _MOST:
                time.sleep(_GATHER_S)

    def _gathered(self) -> tuple[list[str], bool]:
        """What there is to release, waiting for the first, and whether more may come."""
        names: list[str] = []
        while (task := self._queue.get()) != SHUTDOWN_FINALIZER_WORKER:
            if task[1] not in _NEVER:
                names.append(task[1])
            if len(names) == _MOST or self._queue.empty():
                return names, True
        return names, False

    def _release(self, names: list[str]) -> None:
        """Errors: OSError, Py4JError; some may be released then."""
        if not names:
            return
        connection = self._client._get_connection()  # this thread's own
        try:
            connection.socket.sendall("".join(map(_command, names)).encode())
            for _ in names:
                if (answer := connection.stream.readline()) != _DONE:
                    raise ConnectionError(f"the JVM answered {answer!r}")
        except BaseException:
            connection.close(False)  # the next call opens another
            raise
        self._client._give_back_connection(connection)

    def _release_again(self, names: list[str], error: Exception) -> None:
        """Once more, where only a connection may have been lost: to release a name twice does nothing."""
        try:
            self._release(names)
        except Exception:  # a JVM that is gone has released them all
            log.debug("%d of the JVM's objects could not be released: %s", len(names), error)


def _command(name: str) -> str:
    return f"{MEMORY_COMMAND_NAME}{MEMORY_DEL_SUBCOMMAND_NAME}{name}\n{END_COMMAND_PART}"
