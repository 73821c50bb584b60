"""Obtains a plugin's file, an archive or a wheel, from a path or a URL, and compares its checksum."""

from __future__ import annotations

import hashlib
import re
import ssl
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, HTTPResponse, IncompleteRead
from pathlib import Path, PurePosixPath
from typing import IO, Final
from urllib.parse import unquote, urlsplit
from urllib.request import Request

from headrace.config.worker.listeners import LOOPBACK
from headrace.plugins.interop.jvm.jars import Unavailable
from headrace.worker.machine.unpacking import MOST_BYTES, SUFFIXES

_TIMEOUT_S: Final = 60
_LEAST_BYTES: Final = 60_000
"""A download that gives less in `_TIMEOUT_S` is given up."""
_CHUNK_BYTES: Final = 1 << 20
_DIGITS: Final = {"sha256": 64, "sha512": 128}


class WrongChecksumError(Exception):
    """The file is not the one that was meant; the text has both checksums."""


class UnusableSourceError(ValueError):
    """The path or URL, or its checksum, cannot be used as it is written."""


@dataclass(frozen=True)
class Checksum:
    """The expected checksum of a file."""

    algorithm: str
    digest: str

    @classmethod
    def parse(cls, algorithm: str, text: str) -> Checksum:
        """Read hexadecimal digits. Errors: UnusableSourceError."""
        digest = text.strip().lower()
        if not re.fullmatch(rf"[0-9a-f]{{{_DIGITS[algorithm]}}}", digest):
            raise UnusableSourceError(f"--{algorithm} {text} is no such checksum: it has {_DIGITS[algorithm]} digits")
        return cls(algorithm, digest)


def is_url(source: str) -> bool:
    """True for what is fetched over HTTP."""
    return source.lower().startswith(("http://", "https://"))


def file_name(source: str) -> str:
    """The name of the file at a path or URL."""
    return PurePosixPath(unquote(urlsplit(source).path)).name if is_url(source) else Path(source).name


def is_archive(source: str) -> bool:
    """True if this names an archive that may hold a plugin."""
    return file_name(source).lower().endswith(SUFFIXES)


def is_python(source: str) -> bool:
    """True if this names a wheel or a module."""
    return file_name(source).endswith((".whl", ".py"))


def obtained(source: str, checksum: Checksum | None, scratch: Path) -> Path:
    """The file itself, or what was fetched into a folder under its name.

    Errors: UnusableSourceError, WrongChecksumError, Unavailable, OSError.
    """
    path = _fetched(source, checksum, scratch) if is_url(source) else Path(source)
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there; put it there, or install the plugin from where it is now")
    if checksum is not None and (found := digest(path, checksum.algorithm)) != checksum.digest:
        raise WrongChecksumError(
            f"{source} is not the file that was meant: its {checksum.algorithm} is {found}, not {checksum.digest}; "
            "nothing was installed. Compare both with what its publisher says"
        )
    return path


def digest(path: Path, algorithm: str = "sha256") -> str:
    """The checksum of a file, in hexadecimal digits. Errors: OSError."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _fetched(url: str, checksum: Checksum | None, scratch: Path) -> Path:
    _refuse_unsafe(url, checksum)
    target = scratch / file_name(url)
    opener = urllib.request.build_opener(_Safe(checksum))
    try:
        with opener.open(url, timeout=_TIMEOUT_S) as answer, open(target, "xb") as file:
            _copy(answer, url, file)
    except urllib.error.HTTPError as error:
        raise Unavailable(
            f"{url} was answered with {error.code} {_first_line(error.reason)}; {_remedy(error.code)}"
        ) from error
    except IncompleteRead as error:
        raise Unavailable(f"{url} ended before its end; try again") from error
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        why = getattr(error, "reason", error)
        raise Unavailable(f"{url} could not be fetched: {why or type(why).__name__}. {_advice(why)}") from error
    print(f"headrace: fetched {target.name}, sha256 {digest(target)}", file=sys.stderr)
    return target


def _copy(answer: HTTPResponse, url: str, file: IO[bytes]) -> None:
    """Store an answer. Errors: UnusableSourceError if it is too large; Unavailable if it stalls, or is not whole."""
    size, expected = 0, answer.headers.get("Content-Length")
    before, since = 0, time.monotonic()
    while chunk := answer.read1(_CHUNK_BYTES):
        size += file.write(chunk)
        if size > MOST_BYTES:
            raise UnusableSourceError(f"{url} has more than {MOST_BYTES} bytes; it is not fetched")
        if (now := time.monotonic()) - since > _TIMEOUT_S:
            if size - before < _LEAST_BYTES:
                raise Unavailable(
                    f"{url} gave only {size - before} bytes in {now - since:.0f} s ({size} of {expected or 'unknown'} "
                    "in all); try again, or fetch the file first and install it from its path"
                )
            before, since = size, now
    if expected is not None and size != int(expected):
        raise Unavailable(f"{url} ended after {size} of {expected} bytes; try again")


def _first_line(reason: str) -> str:
    return reason.strip().split("\n", 1)[0].rstrip(".")


def _remedy(code: int) -> str:
    """The advice for an answer."""
    if code in (401, 403, 407):
        return "fetch the file first with a login, and install it from its path"
    return "try again later" if code == 429 or code >= 500 else "look at the address"


def _advice(why: object) -> str:
    """The advice if there is no answer."""
    if isinstance(why, ssl.SSLCertVerificationError):
        return "An authority of your own is trusted if SSL_CERT_FILE names a file with its certificate"
    return "Look at the address, or try again; behind a proxy set HTTPS_PROXY"


def _refuse_unsafe(url: str, checksum: Checksum | None) -> None:
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise UnusableSourceError(
            f"the address of {file_name(url)} holds a password, which would be kept in the lock file; fetch the file "
            "first and install it from its path"
        )
    if parts.scheme.lower() == "http" and parts.hostname not in LOOPBACK and checksum is None:
        raise UnusableSourceError(
            f"{url} could be exchanged on the way, because it is not fetched by https: say --sha256 or --sha512"
        )


class _Safe(urllib.request.HTTPRedirectHandler):
    """Follows a redirection only to where the file could have been asked for in the first place."""

    def __init__(self, checksum: Checksum | None) -> None:
        self._checksum = checksum

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """Refuse an unsafe target, else follow. Errors: UnusableSourceError."""
        try:
            _refuse_unsafe(newurl, self._checksum)
        except UnusableSourceError as error:
            raise UnusableSourceError(f"{req.full_url} leads elsewhere: {error}") from error
        return super().redirect_request(req, fp, code, msg, headers, newurl)
