"""Iceberg's library in the JVM of Spark's driver, loaded once for each Spark context.

The classes have a class loader of their own below Spark's, so that a worker without a table of a lake fetches nothing
and has none of them on its class path.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError

from headrace.connectors.lake.errors import LakeError
from headrace.plugins.contracts import InterruptedBy, uninterrupted
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.catalyst.spark_internals import (
    JAVA_ERRORS,
    complete_context,
    hadoop_configuration,
    new_class_loader,
    new_in_java,
)
from headrace.plugins.interop.jvm import jars
from headrace.plugins.interop.jvm.java_compiler import compiled

_CONFIGURATION: Final = "org.apache.hadoop.conf.Configuration"
_JAVA: Final = Path(__file__).parent / "java"
_CALL: Final = ("headrace.lake.Lake", "call", "java.lang.String", "java.lang.String", _CONFIGURATION)
_GONE: Final = "Iceberg's library is in Spark's JVM, which does not run now; it is tried again."

_lock: Final = threading.Lock()
_loaders: Final[WeakKeyDictionary[Any, dict[bool, Any]]] = WeakKeyDictionary()
"""Class loaders by Spark context, without and with Amazon's clients."""


class Fault(Exception):
    """An answer of the Java side that says what went wrong."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        """`retry`, `login`, `missing`, `partition`, `lock` (Hive's metastore gives none) or `refused`."""


def lake_jars(with_aws: bool) -> list[Path]:
    """Fetch Iceberg's library, and compile what calls it. Errors: jars.Unavailable."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    sparks = sorted((Path(spec.origin).parent / "jars").glob("*.jar"))
    library = jars.fetch("lake")
    return [*library, *(jars.fetch("lake-aws") if with_aws else []), compiled("lake", _JAVA, [*sparks, *library])]


class JvmLake:
    """One catalog in the driver's JVM, opened by its first call and again after a new driver has started."""

    def __init__(
        self, opening: Mapping[str, Any], with_aws: bool, interrupted_by: InterruptedBy = uninterrupted
    ) -> None:
        """`interrupted_by`: ends calls that are blocked."""
        self._opening, self._with_aws, self._interrupted_by = opening, with_aws, interrupted_by
        self._open_lock = threading.Lock()
        self._is_closed = False
        self._context: Any = None
        self._made: Callable[..., Any] | None = None
        self._being_opened: Callable[..., Any] | None = None
        self._has_answered = False

    def call(self, method: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of a method of `connectors/lake/iceberg/java/Lake.java`.

        Errors: Fault, LakeError; RetriableError without a driver, and after `close`.
        """
        try:
            with self._interrupted_by(self._cancel):
                answer = self._ask(self._opened(), method, request)
            self._has_answered = True
            return answer
        except JAVA_ERRORS as error:
            raise LakeError(f"Iceberg's library cannot be loaded: {error}") from error
        except (Py4JError, OSError) as error:
            raise RetriableError(f"{_GONE} ({type(error).__name__})") from error

    def log_in_again(self) -> bool:
        """Open the catalog anew at the next call; return False if it has never answered, so that this would not help.

        A server that was restarted, or whose keys were changed, may know none of its tokens any more.
        """
        has_answered, self._has_answered = self._has_answered, False
        if has_answered:
            with self._open_lock:
                self._let_go()
        return has_answered

    def close(self) -> None:
        """Close the catalog for good; does nothing if its driver has gone."""
        with self._open_lock:
            self._is_closed = True  # a thread beside the task may still call
            self._let_go()

    def _cancel(self) -> None:
        """Make all calls return at once; any thread may call."""
        for made in (self._made, self._being_opened):
            if made is not None:
                self._ask(made, "cancel", {})

    def _let_go(self) -> None:
        made, self._made = self._made, None
        if made is not None and self._context is complete_context():
            with suppress(*JAVA_ERRORS, Py4JError, OSError, Fault):
                self._ask(made, "close", {})

    def _opened(self) -> Callable[..., Any]:
        context = complete_context()
        if context is None:
            raise RetriableError(_GONE)
        with self._open_lock:
            if self._is_closed:
                raise RetriableError("The catalog is closed: its task has ended.")
            if self._made is None or self._context is not context:
                made = new_in_java(context, class_loader(context, self._with_aws), *_CALL)
                self._being_opened = made
                try:
                    self._ask(made, "open", self._opening)
                finally:
                    self._being_opened = None
                self._context, self._made = context, made
            return self._made

    def _ask(self, made: Callable[..., Any], method: str, request: Mapping[str, Any]) -> dict[str, Any]:
        hadoop = hadoop_configuration(complete_context() or self._context)
        answer: dict[str, Any] = json.loads(made(method, json.dumps(request), hadoop))
        if "fault" in answer:
            raise Fault(answer["fault"], answer["message"])
        return answer


def class_loader(context: Any, with_aws: bool) -> Any:
    """Return the loader of Iceberg's classes in this context's JVM. Errors: LakeError."""
    with _lock:
        known = _loaders.setdefault(context, {})
        if with_aws not in known:
            try:
                known[with_aws] = new_class_loader(context, lake_jars(with_aws))
            except jars.Unavailable as error:
                raise LakeError(f"Iceberg's library cannot be loaded: {error}") from error
        return known[with_aws]
