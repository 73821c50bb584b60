"""An issuer of bearer tokens: its keys, its JWKS, and a server of that which can be away."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER = "https://issuer.example/realms/r"
AUDIENCE = "headrace"


def jwk(key: Any, kid: str | None, **more: str) -> dict[str, Any]:
    """The public half of a key."""
    algorithm = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
        ed25519.Ed25519PrivateKey: jwt.algorithms.OKPAlgorithm,
    }
    of = next(made for kind, made in algorithm.items() if isinstance(key, kind))
    found: dict[str, Any] = json.loads(of.to_jwk(key.public_key()))
    return {**found, **({} if kid is None else {"kid": kid}), **more}


def token(key: Any, kid: str | None = "k1", algorithm: str = "RS256", **claims: Any) -> str:
    """A token of `ann`, for five minutes; a claim that is None is left out."""
    all_claims = {"sub": "ann", "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 300, **claims}
    given = {name: value for name, value in all_claims.items() if value is not None}
    return jwt.encode(given, key, algorithm, headers=None if kid is None else {"kid": kid})


class JwksServer:
    """Serves a JWKS on a free port, counts who asks."""

    def __init__(self, keys: list[dict[str, Any]]) -> None:
        self.keys = keys
        self.asked = 0
        self.status = 200
        self.before: Callable[[], object] = lambda: None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                outer.before()
                body = json.dumps({"keys": outer.keys}).encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/jwks?secret=x"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
