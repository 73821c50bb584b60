"""Basic authentication: who passes, and what checking costs at most."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from pathlib import Path

import pytest

from headrace.rest.security import passwords as module
from headrace.rest.security.passwords import Passwords
from headrace.rest.security.principal import Principal
from headrace.rest.security.refusals import Unchecked, WrongLogin
from headrace.rest.security.users import Users, read_users
from headrace.rest.security.watched_file import WatchedFile
from tests.unit.rest.security.test_users import hashed


def basic(name: str, password: str) -> str:
    return base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture
def checks(tmp_path: Path) -> Passwords:
    path = tmp_path / "users"
    path.write_text(f"plain=pw\nann={hashed('secret')}\n")
    return Passwords(WatchedFile(path, read_users))


class SlowHashes:
    """Hashes that end when they are let, counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ended = threading.Event()
        self.made: list[str] = []

        def has_hashed(_: Users, name: str, password: str, hashed: str) -> bool:
            self.made.append(password)
            self.ended.wait(60)
            return password == "secret"

        monkeypatch.setattr(Users, "has_hashed", has_hashed)


async def refused_but(
    held: int, tries: list[asyncio.Task[Principal]]
) -> tuple[set[asyncio.Task[Principal]], set[asyncio.Task[Principal]]]:
    """All are answered but so many, which wait; the answered and the waiting ones."""
    async with asyncio.timeout(60):
        while True:
            done, waiting = await asyncio.wait(tries, timeout=0.05)
            if len(waiting) <= held:
                assert len(waiting) == held
                return done, waiting


def test_who_passes_and_who_does_not(checks: Passwords) -> None:
    async def check() -> None:
        assert await checks.principal(basic("plain", "pw"), "a") == Principal("plain")
        assert await checks.principal(basic("ann", "secret"), "a") == Principal("ann")
        for credentials in (basic("plain", "PW"), basic("ann", "wrong"), basic("bob", "secret"), basic("plain", "")):
            with pytest.raises(WrongLogin):
                await checks.principal(credentials, "a")
        for credentials in ("!", "", base64.b64encode(b"nocolon").decode(), base64.b64encode(b":pw").decode()):
            with pytest.raises(WrongLogin, match="the header Authorization"):
                await checks.principal(credentials, "a")

    asyncio.run(check())


def test_a_hash_is_no_password(checks: Passwords) -> None:
    stored = checks._of.stored["ann"]
    with pytest.raises(WrongLogin):
        asyncio.run(checks.principal(basic("ann", stored), "a"))


def test_who_has_logged_in_costs_no_hash(checks: Passwords, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowHashes(monkeypatch)
    slow.ended.set()

    async def check() -> None:
        # One hash for many that come at once, and none for those that follow.
        await asyncio.gather(*(checks.principal(basic("ann", "secret"), "a") for _ in range(50)))
        await checks.principal(basic("ann", "secret"), "b")
        assert slow.made == ["secret"]
        with pytest.raises(WrongLogin):
            await checks.principal(basic("ann", "wrong"), "a")
        with pytest.raises(WrongLogin):
            await checks.principal(basic("ann", "wrong"), "a")
        assert slow.made == ["secret", "wrong", "wrong"]
        monkeypatch.setattr(time, "monotonic", lambda: float("1e12"))
        await checks.principal(basic("ann", "secret"), "a")
        assert slow.made[3:] == ["secret"]

    asyncio.run(check())
    assert not any(b"secret" in key for key in checks._known)


def test_an_address_and_all_together_have_bounds(checks: Passwords, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowHashes(monkeypatch)

    async def check() -> None:
        trying = [asyncio.create_task(checks.principal(basic("ann", f"w{n}"), "attacker")) for n in range(100)]
        done, waiting = await refused_but(module._MOST_OF_ADDRESS, trying)
        assert all(isinstance(one.exception(), Unchecked) for one in done)
        other = asyncio.create_task(checks.principal(basic("ann", "secret"), "another"))
        many = [asyncio.create_task(checks.principal(basic("ann", f"x{n}"), f"host{n}")) for n in range(100)]
        _, more = await refused_but(module._MOST_WAITING - module._MOST_OF_ADDRESS - 1, many)
        slow.ended.set()
        assert await other == Principal("ann")
        await asyncio.wait([*waiting, *more])

    asyncio.run(check())
    assert not checks._waiting
    assert not checks._of_address


def test_changed_users_are_asked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.rest.security.watched_file._LOOK_S", 0.0)
    path = tmp_path / "users"
    path.write_text(f"ann={hashed('secret')}\n")
    checks = Passwords(WatchedFile(path, read_users))

    async def check() -> None:
        await checks.principal(basic("ann", "secret"), "a")
        path.write_text(f"ann={hashed('another')}\nbob=b\n")
        with pytest.raises(WrongLogin):
            await checks.principal(basic("ann", "secret"), "a")
        await checks.principal(basic("ann", "another"), "a")

    asyncio.run(check())
    checks.stop()
