"""The secrets that this process has met, and texts without them (Invariant 6).

Values of providers, settings of type PASSWORD and values under names of secrets are given to `hide` before anything is
done with them; from then on no line of the log and no trace shows them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, TextIO

from headrace.config.problems import ConfigError
from headrace.config.values import HIDDEN, looks_secret, telling
from headrace.worker.errors import ConnectError

_MOST: Final = 10_000
_OPTION: Final = re.compile(r"""([\w.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s&;,"']+))""")
_LOGIN: Final = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")

_lock = threading.Lock()
_known: dict[str, None] = {}
_pieces: tuple[str, ...] = ()


def hide(values: Iterable[str]) -> None:
    """Show these values no more; of very many, the oldest are forgotten."""
    global _pieces
    pieces = {form for value in values for piece in telling(value) for form in _forms(piece)}
    if not pieces - _known.keys():
        return
    with _lock:
        _known.update(dict.fromkeys(pieces))
        for oldest in list(_known)[:-_MOST]:
            del _known[oldest]
        _pieces = tuple(_known)


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with each secret hidden, longer ones first: these of at least three characters, and all known ones."""
    own = {form for secret in secrets if len(secret) > 2 for form in _forms(secret)}
    there = {secret for secret in (*own, *_pieces) if secret in text}
    longest_first = sorted(there, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), HIDDEN, text) if there else text


def secrets_of(config: Mapping[str, str], shown: Mapping[str, str | None] | None = None) -> list[str]:
    """The secrets in a config: values that `shown` hides or that are named like secrets, and logins within others."""
    found = []
    for key, value in config.items():
        if looks_secret(key) or (shown is not None and shown.get(key) == HIDDEN):
            found.append(value)
        found += _within(value)
    return found


def trace_of(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """The trace that a FAILED status shows: `module.Exception: message`, as in Java, then where it was raised.

    `secrets`, and those that this module knows, are hidden wherever they stand in it. (Invariant 6: a secret never
    reaches a status.)
    """
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    frames = "".join(traceback.format_exception(error)).rstrip()
    return masked(f"{module}{kind.__qualname__}: {error}\n{frames}", secrets)


def log_text(error: BaseException) -> str:
    """The text of an error for the log: its message, or its trace where an error that is not ours caused it."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    return str(error) if isinstance(root, ConnectError | ConfigError) else trace_of(error)


@contextlib.contextmanager
def passed_on(stream: TextIO, without: str | None = None) -> Iterator[int]:
    """A descriptor for the output of a child started within; its lines come out at `stream` without secrets, later too.

    Lines that begin with `without` are left out. Spark's driver writes an executor's exception to its standard error as
    it is.
    """
    reading, writing = os.pipe()

    def pass_on() -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if without is not None and line.startswith(without):
                    continue
                with contextlib.suppress(ValueError, OSError):  # the stream is gone, but its writer must not wait
                    stream.write(masked(line))
                    stream.flush()

    threading.Thread(target=pass_on, name="spark-output", daemon=True).start()
    try:
        yield writing
    finally:
        os.close(writing)


def _within(value: str) -> Collection[str]:
    """The passwords in a JAAS text and a URL: an error may quote only a part of the text."""
    if "=" not in value and "@" not in value:
        return ()
    options = [(match[1], match[2] or match[3] or match[4]) for match in _OPTION.finditer(value)]
    return [text for name, text in options if text and looks_secret(name)] + _LOGIN.findall(value)


def _forms(secret: str) -> set[str]:
    """As it is, and as Python and JSON quote it."""
    return {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
