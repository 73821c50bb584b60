"""A host name that nothing resolves, as some containers have: Java's libraries ask for the address of their own name.

Decided: `libnss_wrapper` gives such a JVM the name `localhost`, because Iceberg takes no lock of Hive's metastore
without an address, and no option of Java's adds one name; loses: where that library is not installed, tables of such
a catalog.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Final

from headrace.worker.machine import nss_wrapper

_VARIABLE: Final = "NSS_WRAPPER_HOSTNAME"
_LIMIT_S: Final = 1.0
"""A name whose address takes longer is as good as unknown: Java asks for it again and again."""


def host_name() -> dict[str, str]:
    """The variables by which a new JVM resolves its host's name; none if it does so by itself, or nothing helps."""
    if _VARIABLE in os.environ or _is_resolved(socket.gethostname()):
        return {}
    library = nss_wrapper.preloading()
    return {**library, _VARIABLE: "localhost"} if library else {}


def _is_resolved(name: str) -> bool:
    found: list[object] = []

    def resolve() -> None:
        with contextlib.suppress(OSError, UnicodeError):
            found.extend(socket.getaddrinfo(name, None))

    # The system's call has no time limit.
    thread = threading.Thread(target=resolve, name="host-name", daemon=True)
    thread.start()
    thread.join(_LIMIT_S)
    return bool(found)
