"""An HTTP server on loopback whose answers a test gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    """JSON's; None without a body."""


@contextmanager
def answering(answer: Callable[[Asked], tuple[int, Any]]) -> Iterator[str]:
    """The URL of a server; `answer` returns a status and a JSON value."""

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            url = urlsplit(self.path)
            body = json.loads(self.rfile.read(size)) if size else None
            status, value = answer(Asked(self.command, url.path, dict(parse_qsl(url.query)), body))
            told = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_GET = do_PUT = do_POST = do_DELETE = _do

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
