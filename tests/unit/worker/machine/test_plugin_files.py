"""A plugin's file is fetched over HTTP or taken from a path, and only if it is the one that was meant."""

from __future__ import annotations

import contextlib
import hashlib
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace.plugins.interop.jvm.jars import Unavailable
from headrace.worker.machine import plugin_files
from headrace.worker.machine.plugin_files import (
    Checksum,
    UnusableSourceError,
    WrongChecksumError,
    file_name,
    is_archive,
    obtained,
)
from tests.certificates import Authority

CONTENT = b"packed" * 1000


class Serving(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.close_connection = True
        if self.path.startswith("/answer"):
            self.send_error(int(self.path[7:10]))
            return
        if self.path.startswith("/loop"):
            self.send_response(302)
            self.send_header("Location", self.path)
            self.end_headers()
            return
        if self.path.startswith("/slow"):
            self._drip(float(self.path[5:8]))
            return
        if self.path.startswith("/chunked"):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"ff\r\nhalf")
            return
        if self.path.startswith("/moved"):
            self.send_response(302)
            self.send_header("Location", "http://far.example.org/one.zip" if "far" in self.path else "/one.zip")
            self.end_headers()
            return
        self.send_response(200 if self.path.startswith(("/one.zip", "/short")) else 404)
        self.send_header("Content-Length", str(len(CONTENT) + self.path.startswith("/short")))
        self.end_headers()
        self.wfile.write(CONTENT)

    def _drip(self, pause_s: float) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(40):
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(pause_s)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Serving) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["/one.zip?token=1", "/moved/one.zip"])
@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_a_file_is_fetched_and_compared(server: str, path: str, algorithm: str, tmp_path: Path) -> None:
    checksum = Checksum.parse(algorithm, hashlib.new(algorithm, CONTENT).hexdigest().upper())
    found = obtained(server + path, checksum, tmp_path)
    assert (found, found.read_bytes()) == (tmp_path / "one.zip", CONTENT)


def test_another_file_is_refused_with_both_checksums(server: str, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(CONTENT)
    wrong = Checksum.parse("sha256", "0" * 64)
    for source in (f"{server}/one.zip", str(tmp_path / "x.zip")):
        with pytest.raises(WrongChecksumError, match=f"{hashlib.sha256(CONTENT).hexdigest()}, not {'0' * 64}"):
            obtained(source, wrong, tmp_path)
        (tmp_path / "one.zip").unlink(missing_ok=True)


def test_what_is_not_there_or_not_whole_is_told(server: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/gone.zip is not there; put it there"):
        obtained(f"{tmp_path}/gone.zip", None, tmp_path)
    with pytest.raises(Unavailable, match="answered with 404"):
        obtained(f"{server}/gone.zip", None, tmp_path)
    with pytest.raises(Unavailable, match="6000 of 6001 bytes"):
        obtained(f"{server}/short.zip", None, tmp_path)
    with pytest.raises(Unavailable, match="could not be fetched"):
        obtained("http://127.0.0.1:1/one.zip", None, tmp_path)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/answer401/one.zip", "401 Unauthorized; fetch the file first with a login"),
        ("/answer404/one.zip", "404 Not Found; look at the address"),
        ("/loop/one.zip", "answered with 302 [^\n]* infinite loop; look at the address$"),
        ("/answer503/one.zip", "503 Service Unavailable; try again later"),
        ("/chunked/one.zip", "ended before its end; try again"),
        ("/slow0.1/one.zip", r"gave only \d+ bytes in \d+ s \(\d+ of 1000 in all\)"),
        ("/slow0.9/one.zip", "could not be fetched: .*timed out"),
    ],
)
def test_a_server_that_fails_or_stalls_is_told_with_what_to_do(
    server: str, path: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_files, "_TIMEOUT_S", 0.5)
    with pytest.raises(Unavailable, match=why):
        obtained(server + path, None, tmp_path)


def test_an_authority_is_trusted_if_the_environment_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority()
    (tmp_path / "own.pem").write_text(authority.issue("server").pem)
    (tmp_path / "ca.pem").write_text(authority.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "own.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), Serving) as serving:
        serving.socket = context.wrap_socket(serving.socket, server_side=True)
        threading.Thread(target=serving.serve_forever).start()
        url = f"https://127.0.0.1:{serving.server_port}"
        try:
            with pytest.raises(Unavailable, match="SSL_CERT_FILE"):
                obtained(f"{url}/one.zip", None, tmp_path)
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
            assert obtained(f"{url}/one.zip", None, tmp_path).read_bytes() == CONTENT
            with pytest.raises(UnusableSourceError, match=rf"{url}/moved/far/one.zip leads elsewhere: http://far"):
                obtained(f"{url}/moved/far/one.zip", None, tmp_path / "again")
        finally:
            serving.shutdown()


def test_a_file_that_is_too_large_is_not_fetched_whole(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_files, "MOST_BYTES", 100)
    with pytest.raises(UnusableSourceError, match="more than 100 bytes"):
        obtained(f"{server}/one.zip", None, tmp_path)


def test_what_could_be_exchanged_on_the_way_needs_a_checksum(server: str, tmp_path: Path) -> None:
    for url in ("http://far.example.org/one.zip", f"{server}/moved/far/one.zip"):
        with pytest.raises(UnusableSourceError, match="--sha256 or --sha512"):
            obtained(url, None, tmp_path)
        (tmp_path / "one.zip").unlink(missing_ok=True)


def test_a_password_in_an_address_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(UnusableSourceError, match="holds a password") as refused:
        obtained("https://me:hidden@far.example.org/one.zip", None, tmp_path)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(("algorithm", "text"), [("sha256", "0" * 128), ("sha512", "0" * 64), ("sha256", "x" * 64)])
def test_what_is_no_checksum_is_refused(algorithm: str, text: str) -> None:
    with pytest.raises(UnusableSourceError, match="digits"):
        Checksum.parse(algorithm, text)


def test_archives_are_known_by_their_names() -> None:
    assert file_name("https://x.org/a/b%20c.zip?d=e.txt") == "b c.zip"
    assert [is_archive(one) for one in ("https://x.org/a.tar.gz?b", "/a/b.ZIP", "a.whl", "a.jar", "a:b:1")] == [
        *(True, True, False, False, False)
    ]
