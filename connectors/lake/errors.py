"""Errors of tables of a lake."""

from __future__ import annotations

from headrace.plugins.errors import LoginRefused


class LakeError(Exception):
    """A table, a catalog or a store refuses; the text says what, where and what to do."""


class LakeLoginRefused(LakeError, LoginRefused):
    """A catalog or a store refuses the login."""
