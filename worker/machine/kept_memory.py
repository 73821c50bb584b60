"""Keeps memory that batches gave back with the process, for the next ones.

Decided: because the C library's allocator otherwise gives the end of each arena back to the kernel after a batch, and
getting it again, page by page, took a source's task 0.3 of 1.4 microseconds a record, and a Spark job 7 % of its CPU;
loses: after a large batch a process keeps up to `KEPT_BYTES` in each arena; there may be eight a core.

Source: mallopt(3).
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Final

KEPT_BYTES: Final = 16 << 20
ALONE_BYTES: Final = 8 << 20
"""Larger blocks are mapped by themselves, and given back when freed."""
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> None:
    """Have the allocator of this process keep freed memory; only glibc's can be told."""
    libc: Any = ctypes.CDLL(None)
    if sys.platform == "linux" and hasattr(libc, "mallopt"):
        libc.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        libc.mallopt(_MMAP_THRESHOLD, ALONE_BYTES)
