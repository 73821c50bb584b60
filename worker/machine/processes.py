"""Child processes that end with their owner, and Ctrl-C that ends them in order.

Children run in a session of their own: a Ctrl-C on the terminal reaches their owner alone, which stops them one after
the other. If the owner is killed with -9, the kernel sends its children SIGTERM (Linux; elsewhere they live on).
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from headrace.plugins.owned_processes import dying_with_owner

_OWNED: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


class Interrupted(KeyboardInterrupt):
    """The first SIGINT or SIGTERM; carries its number."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def spawn(
    command: Sequence[str], *, output: Path, cwd: Path, env: Mapping[str, str] | None = None, detached: bool = False
) -> subprocess.Popen[bytes]:
    """Start a child and append its output to a file; a detached one outlives its owner."""
    line = list(command) if detached else dying_with_owner(command)
    with open(output, "ab") as out:
        child = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=cwd, env=env, start_new_session=True
        )
    if not detached:
        _OWNED.add(child)
    return child


def stop(child: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Stop a child by SIGTERM; False if it did not end within the time and was killed."""
    if child.poll() is not None:
        return True
    child.terminate()
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        kill(child)
        return False
    return True


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the child and its session's processes, without a chance to clean up."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@contextlib.contextmanager
def interrupts(on_force: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Inside, the first SIGINT or SIGTERM raises Interrupted; a second one kills all children and exits 128+signal."""

    def force(signum: int, frame: FrameType | None) -> None:
        for child in list(_OWNED):
            kill(child)
        on_force()
        os._exit(128 + signum)

    def first(signum: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, force)
        raise Interrupted(signum)

    before = {each: signal.signal(each, first) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def is_free(port: int) -> bool:
    """True if a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            return False
    return True


def free_port(first: int | None = None) -> int:
    """A free loopback port: any, or the first free one from `first` upward."""
    if first is not None:
        return next(port for port in range(first, 65536) if is_free(port))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
