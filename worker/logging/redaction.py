"""The secrets of one connector, or of the worker, and texts without them (Invariant 6).

    with connector_context(name, "task-0", redaction=definition.redaction()):   # lines and errors inside: its own
        config = definition.plain                                               # learns providers' values

A secret is hidden in the lines, statuses, dead letters and errors of its own connector's scope, which also hide the
worker's secrets. Two kinds are hidden only as the value of a secret: a name in a plain setting of the same connector (a
topic, a table, a user), and a short or ordinary word: `password=connect` loses it, `connectors` does not.

    line                                    hidden
    within a connector's scope              its secrets and the worker's
    that may quote a request, outside       the worker's, as values of secrets
    other lines outside; Spark's output     those of the worker and of all connectors that run here
    an error that left a scope              its scope's, in any line or answer

Decided: by connector and field and not by all values that the process ever met, because a refused config then blanked
words in every line, and an answer with `[hidden]` confirmed a guess of another's secret; loses: an ordinary word that
is a password stays in a sentence that does not name it as one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import traceback
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, Self, TextIO
from urllib.parse import quote, quote_plus, unquote

from headrace.config.problems import ConfigError
from headrace.config.values import HIDDEN, looks_secret, telling
from headrace.plugins.errors import causes
from headrace.worker.errors import ConnectError
from headrace.worker.logging.secret_index import SecretIndex

_MOST: Final = 10_000
_OPTION: Final = re.compile(
    r"""(?<![\w.-])([\w.-]++)\s*=\s*(?:\\+"(.*?)\\+"|"((?:\\.|[^"\\])*)"|'([^']*)'|\{((?:\}\}|[^}])*)\}|((?!\\*")[^\s&;,"']+))"""
)
_USER: Final = r"(?:://[^/\s:@]{0,250}:|jdbc:oracle:\w{1,9}:[^/\s@]{0,250}/)"
_LOGINS: Final = tuple(re.compile(rf"{_USER}({signs})@") for signs in (r"[^/\s@]+", r"[^/\s]+", r"[^\s@]{1,1000}"))
"""A password may hold @ or /: up to the first @, and to the last one before the next /."""
_NAME_LIST: Final = re.compile(r"\s*+[\w.$-]*+(?:\s*+,\s*+[\w.$-]*+)*+\s*")
"""A list of names of topics, tables or classes; no URL, login, statement or text of options."""
_ESCAPED: Final = re.compile(r"\\(.)")
VARIABLE: Final = re.compile(r"\$\{[^}]*\}")
"""A value that is a variable is no secret."""
_ORDINARY: Final = re.compile(r"[A-Za-z]{1,12}|\d{1,6}")
_NAMES: Final = (
    r"(?i:user\.info|password|passwd|pwd|passphrase|secret|token|jaas|credential|private.?key|keystore\.key)"
)
_QUOTES: Final = r"""\\*["'(\[]*"""
# Not within a word; an escape such as \n may stand before it.
_BEGINS: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\x[0-9a-f]{2})|(?<=\\u[0-9a-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
_LOGIN_BYTES: Final = re.compile(r"""(auth_bytes=)b(["']).*?\2""")
"""In kafka-python's requests, which it writes at DEBUG."""
_ENDS: Final = r"(?![A-Za-z0-9])"


class Redaction:
    """Secrets that are hidden together; any thread may call, and it can be pickled."""

    def __init__(self, secrets: Iterable[str] = (), plain: Iterable[str] = (), names: Iterable[str] = ()) -> None:
        """`plain`: names in settings that are no secrets; `names`: secret settings whose names do not say so."""
        self._plain = tuple(plain)
        self._names = frozenset(names)
        self._lock = threading.Lock()
        self._runs = False
        self._secrets: tuple[str, ...] = ()
        self.learn(secrets)

    @classmethod
    def of(
        cls,
        config: Mapping[str, str],
        shown: Mapping[str, str | None] | None = None,
        provided: Iterable[str] = (),
    ) -> Self:
        """Collect the secrets of a given config, those that `shown` hides, and values `provided` for it."""
        secret = {key for key in config if looks_secret(key) or (shown is not None and shown.get(key) == HIDDEN)}
        plain = [value for key, value in config.items() if key not in secret and _NAME_LIST.fullmatch(value)]
        return cls([*secrets_of(config, shown), *provided], plain, {key for key in secret if not looks_secret(key)})

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._all(), self._plain, self._names)

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these secrets, too; of more than `_MOST`, the oldest are forgotten."""
        values = [secret for secret in secrets if not VARIABLE.fullmatch(secret)]
        new = [line for value in values for line in map(str.strip, value.splitlines()) if line]
        if set(new) - set(self._secrets):
            with self._lock:
                self._secrets = tuple(dict.fromkeys((*self._secrets, *new)))[-_MOST:]
                if self._runs:
                    self._note(new)

    def run(self) -> Self:
        """Have `hide_everywhere` hide these secrets, too, and learned ones, while this is in use."""
        with self._lock:
            self._runs = True
            self._note(self._secrets)
        return self

    def same(self) -> tuple[object, ...]:
        """A value that is equal for redactions that hide the same."""
        return self._secrets, self._plain, self._names

    def hide(self, text: str) -> str:
        """Remove these secrets, and the worker's, from the text."""
        there = [secret for secret in self._all() if any(form in text for form in _forms(secret))]
        if not there:
            return text
        whole = [secret for secret in there if self._tells(secret)]
        return _without(self.hide_values(text, there), (form for secret in whole for form in _forms(secret)))

    def hide_values(self, text: str, secrets: Collection[str] | None = None) -> str:
        """Remove these secrets from the text as values of secrets: `password=…`, `://user:…@`."""
        secrets = self._all() if secrets is None else secrets
        there = {form for secret in secrets for form in _forms(secret) if form in text}
        if not there:
            return text
        values = "|".join(map(re.escape, sorted(there, key=len, reverse=True)))
        names = "|".join((_NAMES, *map(re.escape, self._names)))
        named = rf"(?:{names})[\w.-]*"
        for place in (
            rf"""({named}\\*["'\])]*\s*(?:=>|[=:,(]|\s(?=["']))\s*(?:Password\()?{_QUOTES})(?:{values})(?![A-Za-z0-9])""",
            rf"({_USER})(?:{values})(?=@)",
            rf"(Invalid value )(?:{values})(?= for configuration \S*{named})",
        ):
            text = re.sub(place, rf"\1{HIDDEN}", text)
        return text

    def _note(self, secrets: Iterable[str]) -> None:
        for secret in secrets:
            _index.add(self, (self._tells(secret), self._names), _forms(secret))

    def _all(self) -> tuple[str, ...]:
        return self._secrets if self is WORKER else (*self._secrets, *WORKER._secrets)

    def _tells(self, secret: str) -> bool:
        """True if the secret is neither short, nor ordinary, nor a name in a plain setting of the same connector."""
        return (
            bool(telling(secret)) and not _ORDINARY.fullmatch(secret) and not any(secret in one for one in self._plain)
        )


WORKER: Final = Redaction()
"""The secrets of this process's worker, hidden in every scope."""

_scope: ContextVar[Redaction | None] = ContextVar("redaction", default=None)
_running: weakref.WeakValueDictionary[tuple[object, ...], Redaction] = weakref.WeakValueDictionary()
_index: SecretIndex[Redaction] = SecretIndex()
"""The secrets of all that run: a line is looked at once, however many they are."""
_running_lock: Final = threading.Lock()


@contextlib.contextmanager
def redaction_scope(redaction: Redaction | None) -> Iterator[None]:
    """Use this redaction inside (None: the one around) for lines and learned secrets; errors carry it along."""
    within = redaction or _scope.get()
    token = _scope.set(within)
    try:
        yield
    except Exception as error:
        if within is not None:
            take_along(error, within)
        raise
    finally:
        _scope.reset(token)


def current() -> Redaction | None:
    """The redaction of this thread's scope."""
    return _scope.get()


def learn(values: Iterable[str]) -> None:
    """Hide these values from now on: within a scope in the scope's texts, else as secrets of the worker."""
    (_scope.get() or WORKER).learn(values)


def running(redaction: Redaction) -> Redaction:
    """Return the redaction that connectors with equal secrets share here.

    While it is in use, lines outside of any connector's scope hide its secrets, too.
    """
    same = redaction.same()
    with _running_lock:
        there = _running.get(same)
        if there is None:
            there = _running[same] = redaction.run()
    return there


def take_along(error: BaseException, redaction: Redaction) -> None:
    """Have the texts of this error hide these secrets in every place."""
    with contextlib.suppress(AttributeError):  # some have no members
        error.__dict__.setdefault("_headrace_redaction", redaction)


def hidden_of(error: BaseException, text: str) -> str:
    """Remove the secrets that the error, or its causes, took along from a text about it."""
    for one in causes(error, contexts=True):
        redaction = getattr(one, "_headrace_redaction", None)
        text = text if redaction is None else redaction.hide(text)
    return text


def hide_everywhere(text: str) -> str:
    """Remove the secrets of the worker and of all that runs here from a text of no known connector."""
    text = WORKER.hide(text)
    for redaction in _index.find(text):
        text = redaction.hide(text)
    return text


def hide_in_line(text: str, quotes: bool) -> str:
    """Remove secrets from a log line; `quotes`: it may quote a request, so no secret may be guessed by it."""
    text, scope = _LOGIN_BYTES.sub(rf"\1{HIDDEN}", text), _scope.get()
    if scope is not None:
        return scope.hide(text)
    return WORKER.hide_values(text) if quotes else hide_everywhere(text)


def secrets_of(config: Mapping[str, str], shown: Mapping[str, str | None] | None = None) -> list[str]:
    """The secrets in a config: values that `shown` hides or that are named like secrets, and logins within others."""
    found = []
    for key, value in config.items():
        if looks_secret(key) or (shown is not None and shown.get(key) == HIDDEN):
            found.append(value)
        if key.endswith("user.info"):
            found.append(value.partition(":")[2])
        found += _within(value)
    return found


def trace_of(error: BaseException, redaction: Redaction | None = None) -> str:
    """The trace that a FAILED status shows: `module.Exception: message`, as in Java, then the frames.

    Without `redaction` the secrets of all that runs here are hidden. (Invariant 6: a secret never reaches a status.)
    """
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    frames = "".join(traceback.format_exception(error)).rstrip()
    text = hidden_of(error, f"{module}{kind.__qualname__}: {error}\n{frames}")
    return hide_everywhere(text) if redaction is None else redaction.hide(text)


def log_text(error: BaseException) -> str:
    """The text of an error for the log: its message, or its trace if a foreign error caused it."""
    *_, root = causes(error)
    return hidden_of(error, str(error)) if isinstance(root, ConnectError | ConfigError) else trace_of(error)


@contextlib.contextmanager
def passed_on(stream: TextIO, takes: Callable[[str], bool] = lambda line: False) -> Iterator[int]:
    """Yield a descriptor for a child's output; its lines are written to `stream` without secrets, even later.

    Lines for which `takes` is true are left out. Spark's driver writes an executor's exception to its standard error
    unredacted.
    """
    reading, writing = os.pipe()

    def pass_on() -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                shown = hide_everywhere(line)
                if takes(shown):
                    continue
                with contextlib.suppress(ValueError, OSError):  # the stream is gone, but its writer must not wait
                    stream.write(shown)
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
    options = [(found[1], next(filter(None, found.groups()[1:]), "")) for found in _OPTION.finditer(value)]
    told = [text for name, text in options if looks_secret(name)]
    told += [text for login in _LOGINS for text in login.findall(value)]
    bare = [_ESCAPED.sub(r"\1", text).replace("}}", "}") for text in told]
    return list(filter(None, dict.fromkeys((*told, *bare))))


def _without(text: str, secrets: Iterable[str]) -> str:
    """Hide these secrets, longer ones first, unless they are part of a word."""
    there = sorted({secret for secret in secrets if secret in text}, key=len, reverse=True)
    return re.sub("|".join(map(_bounded, there)), HIDDEN, text) if there else text


def _bounded(secret: str) -> str:
    begins = _BEGINS if secret[0].isalnum() else ""
    return begins + re.escape(secret) + (_ENDS if secret[-1].isalnum() else "")


@lru_cache(_MOST)
def _forms(secret: str) -> frozenset[str]:
    """The forms in which a text may have the secret: as it is, quoted by Python, JSON and URLs, and unquoted."""
    quoted = {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    of_urls = {
        quote(secret, errors="replace"),
        quote(secret, "", errors="replace"),
        quote_plus(secret, errors="replace"),
    }
    bare = unquote(secret)
    return frozenset(quoted | of_urls | (set() if not telling(bare) or _ORDINARY.fullmatch(bare) else {bare}))
