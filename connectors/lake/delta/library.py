"""The library `deltalake`: loaded when a table is first needed, its errors as ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.lake.errors import LakeError
from headrace.plugins.errors import RetriableError

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_REFUSED: Final = re.compile(r"\b40[13]\b|AccessDenied|Forbidden|InvalidAccessKeyId|NoSuchBucket|[Pp]ermission denied")
"""Words of stores' errors that retries do not help against."""
_OF_STORE: Final = re.compile(r"Error performing [A-Za-z]+ |Generic (S3|GCS|MicrosoftAzure|LocalFileSystem) error")
"""Words of the library's own errors that stand for a store's, which came while data files were read or written."""
_MOST_TEXT: Final = 500


class ConflictError(Exception):
    """Another commit came first, and this one was not made."""


def deltalake() -> ModuleType:
    """Return the library. Errors: ConfigError if it is not installed."""
    try:
        import deltalake as library
    except ImportError as error:
        text = "Delta tables need the Python package deltalake, which is not installed."
        remedy = "Install it on each worker: pip install 'headrace[delta]'."
        raise ConfigError(Problem("connector.class", None, text, remedy)) from error
    return library


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise the library's errors as ours: ConflictError, RetriableError if the store does not answer, LakeError.

    Theirs are no cause of ours, because a trace would show the records that they quote.
    """
    from deltalake import exceptions

    try:
        yield
    except exceptions.CommitFailedError as error:
        raise ConflictError(_text(error)) from None
    except (exceptions.DeltaError, ValueError, NotImplementedError) as error:
        if _OF_STORE.search(str(error)):
            raise _of_store(path, error) from None
        raise LakeError(
            f"The Delta table {path} refuses: {_text(error)} Mend the table, or the records that it does not take, and "
            "restart the task."
        ) from None
    except OSError as error:
        raise _of_store(path, error) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # which is no Exception
            raise
        raise LakeError(f"The library deltalake failed with the Delta table {path}: {_text(error)}") from None


def _of_store(path: str, error: Exception) -> LakeError | RetriableError:
    if _REFUSED.search(str(error)):
        return LakeError(
            f"The store of the Delta table {path} refuses: {_text(error)} Check table.path and delta.storage.*."
        )
    return RetriableError(f"The store of the Delta table {path} does not answer: {_text(error)}")


def _text(error: BaseException) -> str:
    """The message on one line, without what a preview of records shows."""
    plain = _COLOURS.sub("", str(error)).partition("\nPreview of invalid data")[0]
    return " ".join(plain.replace("↳", " ").split())[:_MOST_TEXT].rstrip(".") + "."
