"""The part of a chain that runs in a host for a task that runs in the worker: a batch comes, and goes back at once.

Decided: calls come on the host's own threads, one at a time, and not on one of the task: nothing in Connect ties a
transform or a converter to a thread. Loses: plugins that keep something by thread.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, Final

import jpype
import jpype.nio

from headrace.connectors.java.host.chain import HostedChain
from headrace.connectors.java.host.jvm import Jvm

_END_S: Final = 1.5
"""How long a call may go on when its task has to end, before and after its thread is interrupted."""


class HostedSection:
    """A chain that records pass on their way through the worker."""

    def __init__(self, jvm: Jvm, given: Mapping[str, Any], is_source: bool) -> None:
        """Make and configure all of it; `given` is what `chain.chain_of` told. Errors: those of the plugins."""
        self._chain = HostedChain(jvm, given, is_source, comes_back=True)
        self._reader = jvm.headrace("RecordReader")(None)
        self._java = jvm.headrace("Section")(self._chain.java, self._chain.tolerates)
        self._applying = threading.Lock()
        self._java_thread: Any = None
        self._interrupting = threading.Lock()

    def apply(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], memoryview]:
        """What becomes of each record of a batch; the bytes are valid until the next call."""
        with self._applying:
            jpype.java.lang.Thread.interrupted()  # left by a plugin that was called on this thread before
            self._java_thread = jpype.java.lang.Thread.currentThread()
            try:
                head = json.loads(str(self._java.apply(read_records(self._reader, given))))
            finally:
                with self._interrupting:
                    self._java_thread = None
                    jpype.java.lang.Thread.interrupted()  # the thread's next call is another one's
            buffer = self._java.buffer()
            return head, memoryview(buffer)[: int(buffer.limit())]

    def interrupt(self) -> None:
        """End a wait for another try, and interrupt the call that goes on: the worker waits for it no more."""
        self.end_waits()
        with self._interrupting:
            if self._java_thread is not None:
                self._java_thread.interrupt()

    def end_waits(self) -> None:
        """End a wait for another try, and let none begin; the call that goes on is left alone."""
        self._chain.end()

    def stop(self) -> bool:
        """Close all plugins; whether no call goes on in them."""
        self.end_waits()
        if not self._applying.acquire(timeout=_END_S):
            self.interrupt()
            if not self._applying.acquire(timeout=_END_S):
                return False
        self._chain.close()
        return True


def read_records(reader: Any, given: Mapping[str, Any]) -> Any:
    """The Java records of the columns that a worker sent; `partition`: where a source has them from, as JSON."""
    for side, is_keys in (("keys", True), ("values", False)):
        for number, description in given["schemas"][side]:
            reader.learn(is_keys, number, json.dumps(description))
    buffer, ints = jpype.nio.convertToDirectBuffer(given["data"]), jpype.JArray(jpype.JInt)
    return reader.read(buffer, given["rows"], ints(given["keys"]), ints(given["values"]), given.get("partition"))
