"""Checks Basic authentication: plain passwords at once, hashed ones off the event loop and bounded.

Decided: one thread hashes, because a hash takes a core for 0.2 s and the worker's other work needs the rest; loses:
more than about five new logins a second. A login stays known for five minutes after each request, in memory by a keyed
digest, so that requests cost no hash; until the users change.
Decided: an address may have four passwords waiting, all addresses together 32; beyond that the answer is 429. Someone
who tries passwords thus leaves places, and short waits, to others; loses: clients behind one proxy count as one
address.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import secrets
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from headrace.rest.security.principal import Principal
from headrace.rest.security.refusals import Unchecked, WrongLogin
from headrace.rest.security.users import Users
from headrace.rest.security.watched_file import WatchedFile

_KNOWN_S: Final = 300.0
_MOST_KNOWN: Final = 1_000
_MOST_WAITING: Final = 32
_MOST_OF_ADDRESS: Final = 4


class Passwords:
    """Checks passwords by a file of users, reread when it changes; any event loop may call."""

    def __init__(self, file: WatchedFile[Users]) -> None:
        self._file = file
        self._of = file.current()
        self._key = secrets.token_bytes(32)
        self._lock = threading.RLock()  # a finished hash runs its callback at once, under the lock
        self._known: dict[bytes, float] = {}
        """Expiry of known logins (monotonic seconds), by a keyed digest of user and password; the oldest first."""
        self._waiting: dict[bytes, Future[bool]] = {}
        self._of_address: Counter[str] = Counter()
        self._pool = ThreadPoolExecutor(1, "passwords")

    async def principal(self, credentials: str, address: str) -> Principal:
        """The user with this name and password, in Base64 as in the header.

        Errors: LoginRefused; Unchecked if too many logins wait.
        """
        name, password = _split(credentials)
        users = self._users()
        hashed = users.hash_for(name)
        if hashed is None:
            matches = users.has_plain(name, password)
        else:
            matches = await self._has_hashed(users, name, password, hashed, address)
        if not matches:
            raise WrongLogin(f"wrong password of user {name!r}" if name in users.stored else "no such user")
        return Principal(name)

    def _users(self) -> Users:
        users = self._file.current()
        if users is not self._of:
            with self._lock:
                self._of = users
                self._known.clear()
                self._waiting.clear()
        return users

    async def _has_hashed(self, users: Users, name: str, password: str, hashed: str, address: str) -> bool:
        digest = hashlib.blake2b(f"{len(name)}:{name}{password}".encode(errors="surrogatepass"), key=self._key).digest()
        with self._lock:
            if self._known.get(digest, 0.0) > time.monotonic():
                self._remember(digest)
                return True
            attempt = self._waiting.get(digest)
            if attempt is None:
                attempt = self._begin(users, name, password, hashed, address, digest)
        # Shielded: several requests may wait for one attempt.
        return await asyncio.shield(asyncio.wrap_future(attempt))

    def _begin(self, users: Users, name: str, password: str, hashed: str, address: str, digest: bytes) -> Future[bool]:
        if self._of_address.total() >= _MOST_WAITING or self._of_address[address] >= _MOST_OF_ADDRESS:
            raise Unchecked(429, "Too many logins wait for their passwords to be checked. Try again.")
        self._of_address[address] += 1
        attempt = self._waiting[digest] = self._pool.submit(users.has_hashed, name, password, hashed)

        def ended(done: Future[bool]) -> None:
            with self._lock:
                self._of_address[address] -= 1
                if not self._of_address[address]:
                    del self._of_address[address]
                if self._waiting.get(digest) is done:  # else the users have changed
                    del self._waiting[digest]
                    if not done.cancelled() and done.exception() is None and done.result():
                        self._remember(digest)

        attempt.add_done_callback(ended)
        return attempt

    def _remember(self, digest: bytes) -> None:
        self._known.pop(digest, None)
        self._known[digest] = time.monotonic() + _KNOWN_S
        while len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]

    def stop(self) -> None:
        """Ends the thread; waiting passwords are not checked."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _split(credentials: str) -> tuple[str, str]:
    """Name and password. Errors: LoginRefused."""
    try:
        text = base64.b64decode(credentials.strip(), validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        raise WrongLogin("the header Authorization is not Base64") from None
    name, colon, password = text.partition(":")
    if not name or not colon:
        raise WrongLogin("the header Authorization has no user and password")
    return name, password
