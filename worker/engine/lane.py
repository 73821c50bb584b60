"""A lane: a thread in the driver's JVM that runs programs over batches, and the pipes to and from it.

    number, count, length, batches  -> pipe ->  rows -> projections -> batch  -> pipe ->  length, batch

A batch crosses as an Arrow record batch without its schema, which both ends know from the program. py4j is used only to
start a lane, to add a program, and to fetch an error.

Decided: if a request or an answer is not small, only its length goes through the pipe, and it is in memory that both
ends share, because a pipe copies it four times, through pages that the kernel makes anew (10,000 texts of 100 bytes
took 7.7 ms of CPU in the lane and 1.9 in Python, and take 5.5 and 0.9); loses: up to 8 MB a lane, which are kept.

Decided: the JVM's end is written in Java (`Lane.java`), because a batch took seven calls of py4j otherwise, most of
what a batch of one record cost; loses: another language, internals of classic Spark.

Decided: a thread that computes without end is abandoned, at a lower priority, because to stop a thread of a JVM from
outside was never safe and is no longer possible. It ends by itself between two rows; loses: a part of a core until the
driver is replaced (`given_up.py`).

Decided: the first rows of a program are interpreted, because compiling it takes a new JVM 0.4-1 s, for which the first
record and every new schema waited, and most connectors trickle; with many rows it is compiled beside them. Loses: up to
twice as much for each of those rows; Spark has both ways, and tests compare them.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import select
import struct
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.plugins.interop.catalyst.spark_internals import java_session, jvm_of
from headrace.worker.engine.bounds import LOOK_S
from headrace.worker.engine.compiled import Compiled
from headrace.worker.engine.driver import EngineLost
from headrace.worker.engine.spark_internals import Binder

INTERPRETED_ROWS = 2_000
"""A lane interprets a program's first rows, and compiles it after this many."""
_REQUEST: Final = struct.Struct(">iii?")
_ANSWER: Final = struct.Struct(">q?")
_MOST_BYTES: Final = 2**31 - 1
"""The largest request: a Java array has no more."""
_SHARED_BYTES: Final = 8 << 20
"""Larger requests and answers go through the pipe."""
_PIPED_BYTES: Final = 1 << 16
"""Smaller ones do, too: they are in the processor's cache."""
_PIPE_BYTES: Final = 1 << 20
_READ_BYTES: Final = 1 << 16
_LOOK_MS: Final = int(LOOK_S * 1000)
_GIVEN_UP_NICE: Final = 10
"""The priority of an abandoned thread: low, but not the lowest, because each garbage collection waits for it."""
_PIECES: Final = 512
"""The most pieces written at once; the system's own bound is 1,024."""


class Lane:
    """One thread of the JVM that runs programs; for one caller at a time."""

    def __init__(self, session: SparkSession, generation: int, home: Path, name: str) -> None:
        """`home`: a folder for the pipes, which are in it only until both ends are open."""
        self.generation = generation
        self.is_usable = True
        """True if it can take another batch: not after it failed with half an answer."""
        self._added: weakref.WeakSet[Compiled] = weakref.WeakSet()
        self._ended: deque[int] = deque()
        jvm = jvm_of(session)
        self._binder = Binder(jvm)
        self._java = jvm.headrace.Lane()
        with contextlib.ExitStack() as on_error, _pipe(home / f"{name}-in") as to, _pipe(home / f"{name}-out") as back:
            self._answers = _opened(back, os.O_RDONLY | os.O_NONBLOCK, on_error)
            # Without a reader a pipe cannot be opened for writing only.
            with contextlib.ExitStack() as until_open:
                _opened(to, os.O_RDWR, until_open)
                self._shared, file = until_open.enter_context(_shared_memory())
                self._java.open(java_session(session), str(to), str(back), file)
                self._requests = _opened(to, os.O_WRONLY, on_error)
            os.set_blocking(self._answers, True)
            self._answered = select.poll()
            self._answered.register(self._answers, select.POLLIN)
            self._close = on_error.pop_all()

    def run(
        self, program: Compiled, batches: Sequence[pa.Buffer], look: Callable[[int], object] = lambda looks: None
    ) -> pa.RecordBatch:
        """Compute the program's columns for these serialized batches, as one batch.

        `look` is called after each second without an answer, with the number of these seconds. Its errors end the wait.

        Errors: EngineLost; ValueError if they are too large; what Spark raises.
        """
        size = sum(batch.size for batch in batches)
        if size > _MOST_BYTES:
            raise ValueError(
                f"a batch of {size} bytes is too large: Spark takes {_MOST_BYTES} bytes; use smaller records"
            )
        self._know(program)
        self.is_usable = False
        is_shared = _PIPED_BYTES < size <= len(self._shared)
        self._send(_REQUEST.pack(program.number, len(batches), size, is_shared), *self._piped(batches, is_shared))
        self._wait(look)
        answer = self._receive()
        self.is_usable = True
        if answer is None:
            self._java.rethrow()
            raise AssertionError("a lane that refuses a batch has an error")
        return pa.ipc.read_record_batch(answer, program.gives)

    def close(self) -> None:
        """Let its thread end."""
        self.is_usable = False
        self._close.close()

    def give_up(self) -> None:
        """Abandon its thread, which ends after the row that it computes."""
        self._java.giveUp()
        if (thread := self._java.kernelId()) > 0:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, thread, _GIVEN_UP_NICE)
        self.close()

    def runs(self) -> bool:
        """True until its thread has ended."""
        try:
            return bool(self._java.isRunning())
        except (Py4JError, OSError):
            return False  # the driver is gone

    def _know(self, program: Compiled) -> None:
        """Add a new program in the JVM, and drop those that nobody has any more.

        A lane has its own projections, because their row buffers are reused from row to row, and so are generators and
        parsers inside the expressions (`to_json` has one).
        """
        while self._ended:
            self._send(_REQUEST.pack(self._ended.popleft(), 0, 0, False))
        if program not in self._added:
            bound = [self._binder.bound(made, given) for made, given in program.projections]
            schemas = (one.serialize().to_pybytes() for one in (program.reads, program.gives))
            self._java.add(program.number, *schemas, bound, INTERPRETED_ROWS)
            self._added.add(program)
            weakref.finalize(program, self._ended.append, program.number).atexit = False

    def _piped(self, batches: Sequence[pa.Buffer], is_shared: bool) -> Sequence[pa.Buffer]:
        """The batches that have to go through the pipe: all, or none once they are in the shared memory."""
        if not is_shared:
            return batches
        end = 0
        for batch in batches:
            begin, end = end, end + batch.size
            self._shared[begin:end] = memoryview(batch).cast("B")
        return ()

    def _send(self, *pieces: bytes | pa.Buffer) -> None:
        left = [memoryview(piece) for piece in pieces]
        try:
            while left:
                written = os.writev(self._requests, left[:_PIECES])
                while left and written >= len(left[0]):
                    written -= len(left.pop(0))
                if written:
                    left[0] = left[0][written:]
        except BrokenPipeError as error:
            raise _lost() from error

    def _wait(self, look: Callable[[int], object]) -> None:
        looks = 0
        while not self._answered.poll(_LOOK_MS):
            looks += 1
            look(looks)

    def _receive(self) -> pa.Buffer | None:
        """Read an answer; None if the program failed."""
        data = b""
        while len(data) < _ANSWER.size:
            data += self._more()
        length, is_shared = _ANSWER.unpack_from(data)
        if length < 0:
            return None
        if is_shared:
            return pa.py_buffer(bytes(self._shared[:length]))  # copied, as the next request overwrites it
        body = memoryview(data)[_ANSWER.size :]
        if len(body) == length:
            return pa.py_buffer(body)
        whole = memoryview(bytearray(length))
        whole[: len(body)] = body
        left = whole[len(body) :]
        while left:
            count = os.readv(self._answers, [left])
            if not count:
                raise _lost()
            left = left[count:]
        return pa.py_buffer(whole)

    def _more(self) -> bytes:
        data = os.read(self._answers, _READ_BYTES)
        if not data:
            raise _lost()
        return data


@contextlib.contextmanager
def _shared_memory() -> Iterator[tuple[memoryview, str]]:
    """Yield shared memory, and the file by which another process opens it for now; empty if none can."""
    # Linux has such files; those of a Python with capabilities of its own (`setcap`) are root's.
    if sys.platform != "linux" or os.stat(f"/proc/{os.getpid()}/fd").st_uid != os.geteuid():
        yield memoryview(b""), ""
        return
    descriptor = os.memfd_create("headrace-lane")
    try:
        os.ftruncate(descriptor, _SHARED_BYTES)
        yield memoryview(mmap.mmap(descriptor, _SHARED_BYTES)), f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _lost() -> EngineLost:
    return EngineLost("the Spark driver closed its pipe")


@contextlib.contextmanager
def _pipe(path: Path) -> Iterator[Path]:
    os.mkfifo(path)
    try:
        yield path
    finally:
        path.unlink()


def _opened(pipe: Path, flags: int, on_exit: contextlib.ExitStack) -> int:
    descriptor = os.open(pipe, flags)
    on_exit.callback(os.close, descriptor)
    with contextlib.suppress(OSError, AttributeError):  # the system's bound, or another system
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return descriptor
