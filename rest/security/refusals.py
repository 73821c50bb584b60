"""Reasons to refuse a login."""

from __future__ import annotations

from typing import Final

NO_ACCESS: Final = "User cannot access the resource."
"""The answer to a missing or wrong login, in Apache's words; it tells no more than that."""


class WrongLogin(Exception):
    """The login is wrong; the text is for the log, and has no password or token."""


class Unchecked(Exception):
    """The login cannot be checked now; the text is for the client."""

    def __init__(self, status: int, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s
