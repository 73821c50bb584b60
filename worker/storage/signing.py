"""Requests among workers of a cluster: their shared key, signing and verification.

Only the raw body is signed, so a signature can be used again by anyone who saw it: these endpoints only ever tell the
leader what a worker of the cluster would tell it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.worker.errors import BadRequest, ConnectError
from headrace.worker.model import Signed

SIGNATURE_HEADER: Final = "X-Connect-Authorization"
HEAD_HEADER: Final = "X-Headrace-Worker"
"""Time and signature of a request's head; they prove that a worker sent it, before the body is read."""
ALGORITHM_HEADER: Final = "X-Connect-Request-Signature-Algorithm"

_DIGESTS: Final = {
    "hmacmd5": "md5",
    "hmacsha1": "sha1",
    "hmacsha224": "sha224",
    "hmacsha256": "sha256",
    "hmacsha384": "sha384",
    "hmacsha512": "sha512",
}
"""Python's names for Java's algorithms, which Java takes in any case."""

_KEY_BYTES: Final = {
    "hmacmd5": 64,
    "hmacsha1": 64,
    "hmacsha224": 28,
    "hmacsha256": 32,
    "hmacsha384": 48,
    "hmacsha512": 64,
}
"""The size of a key if `inter.worker.key.size` is not set, as Java's generators make them."""

_OF_HEADS: Final = "HmacSHA256"
_FRESH_MS: Final = 60_000


@dataclass(frozen=True)
class SessionKey:
    """The key that the leader made for all workers, as in the config topic's record `session-key`."""

    key: bytes
    algorithm: str
    """The generator's, by its Java name; signing may use another."""
    created_ms: int

    def __repr__(self) -> str:
        return f"SessionKey(algorithm={self.algorithm!r}, created_ms={self.created_ms})"  # Invariant 6

    @classmethod
    def generate(cls, algorithm: str = "HmacSHA256", size: int | None = None, now_ms: int | None = None) -> SessionKey:
        """Make a new random key. Units: `size` is in bits as in `inter.worker.key.size`."""
        made = secrets.token_bytes(_length(algorithm, size))
        return cls(made, algorithm, _now_ms() if now_ms is None else now_ms)

    def left_ms(self, ttl_ms: int, now_ms: int | None = None) -> int:
        """The rest of its life by the wall clock, given its whole length; never more than that."""
        left = self.created_ms + ttl_ms - (_now_ms() if now_ms is None else now_ms)
        return max(0, min(left, ttl_ms))

    def made_as(self, algorithm: str, size: int | None = None) -> bool:
        """True if this worker would make such a key; a leader replaces others."""
        return self.algorithm == algorithm and len(self.key) == _length(algorithm, size)

    def value(self) -> dict[str, Any]:
        """The record's value, its members in Java's order."""
        return {
            "key": base64.b64encode(self.key).decode(),
            "algorithm": self.algorithm,
            "creation-timestamp": self.created_ms,
        }

    @classmethod
    def of_value(cls, value: Any) -> SessionKey:
        """Parse the key in a record's value. Errors: ValueError, which does not show the value."""
        members = value if isinstance(value, Mapping) else {}
        key, algorithm, created = (members.get(name) for name in ("key", "algorithm", "creation-timestamp"))
        if not isinstance(key, str) or not isinstance(algorithm, str) or type(created) is not int:
            raise ValueError("a session key has the texts key and algorithm and the number creation-timestamp")
        try:
            return cls(base64.b64decode(key, validate=True), algorithm, created)
        except binascii.Error as error:
            raise ValueError(f"the session key is not Base64: {error}") from None

    def bound_to(self, secret: str) -> SessionKey:
        """Derive a key that needs both this key and the secret."""
        return replace(self, key=hmac.digest(secret.encode(), self.key, "sha256"))

    def sign(self, body: bytes, algorithm: str = "HmacSHA256") -> dict[str, str]:
        """The headers that prove that the body is a worker's; without a body, those of the empty one."""
        return {
            SIGNATURE_HEADER: base64.b64encode(self._mac(body, algorithm)).decode(),
            ALGORITHM_HEADER: algorithm,
        }

    def sign_head(self, method: str, target: str, now_ms: int | None = None) -> dict[str, str]:
        """The header that proves that a worker sent a request with this head; `target`: path and query."""
        at = _now_ms() if now_ms is None else now_ms
        return {HEAD_HEADER: f"{at} {self._mac(_head(method, target, at), _OF_HEADS).hex()}"}

    def signed_head(self, method: str, target: str, said: str) -> bool:
        """True if this key made the header's value for such a request within the last minute."""
        at = said.partition(" ")[0]
        if not (at.isascii() and at.isdecimal() and len(at) < 20) or abs(_now_ms() - int(at)) > _FRESH_MS:
            return False
        return hmac.compare_digest(self.sign_head(method, target, int(at))[HEAD_HEADER].encode(), said.encode())

    def signed(self, body: bytes, signature: bytes, algorithm: str) -> bool:
        """True if this key made the signature."""
        return hmac.compare_digest(self._mac(body, algorithm), signature)

    def _mac(self, body: bytes, algorithm: str) -> bytes:
        return hmac.digest(self.key, body, _DIGESTS[algorithm.lower()])


def verify(request: Signed, key: SessionKey | None, algorithms: Sequence[str] = ("HmacSHA256",)) -> None:
    """Check that the request is of a worker of this cluster.

    `algorithms`: `inter.worker.verification.algorithms`. Errors: BadRequest, or ConnectError with status 403 or 503, in
    Connect's words.
    """
    if request.signature is None or request.algorithm is None:
        raise BadRequest("Internal request missing required signature")
    if request.algorithm not in algorithms:
        raise BadRequest(
            f"This worker does not support the '{request.algorithm}' key signing algorithm used by other workers. "
            f"This worker is currently configured to use: [{', '.join(algorithms)}]. "
            "Check that all workers' configuration files permit the same set of signature algorithms, "
            "and correct any misconfigured worker and restart it."
        )
    if key is None:
        raise ConnectError(
            "This worker is still starting up and has not been able to read a session key from the config topic yet",
            503,
        )
    try:
        signature = base64.b64decode(request.signature, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"The header {SIGNATURE_HEADER} is not Base64: {error}") from None
    if not key.signed(request.body, signature, request.algorithm):
        raise ConnectError("Internal request contained invalid signature.", 403)


def _head(method: str, target: str, at: int) -> bytes:
    # No body of an internal request begins like this, so that neither signature passes for the other.
    return f"headrace worker\n{method}\n{target}\n{at}".encode()


def _length(algorithm: str, size: int | None) -> int:
    return _KEY_BYTES[algorithm.lower()] if size is None else (size + 7) // 8


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
