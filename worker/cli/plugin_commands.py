"""Commands that plugins add to `headrace`, by the entry point group `headrace.command`.

    [project.entry-points."headrace.command"]
    mirror = "my_package.commands:app"          # a typer.Typer

A plugin's module is imported when its command runs, or to list all commands in `--help`; `headrace`'s own come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import typer
from typer.core import TyperGroup

from headrace.worker.cli.exits import fail

GROUP: Final = "headrace.command"


class WithPlugins(TyperGroup):
    """The commands of `headrace`, and those of plugins."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, Headrace's own first."""
        own: list[str] = super().list_commands(ctx)
        return [*own, *sorted(_entries().keys() - set(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None if there is none."""
        return super().get_command(ctx, cmd_name) or _of_plugin(cmd_name)


@cache
def _entries() -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


@cache
def _of_plugin(name: str) -> Any:
    """The command of a plugin; None if no plugin has it."""
    entry = _entries().get(name)
    if entry is None:
        return None
    try:
        command = typer.main.get_command(entry.load())
    except Exception as e:  # Invariant 8: a broken plugin breaks no other command
        command = _broken(f"it cannot be loaded from {entry.value}: {type(e).__name__}: {e}")
    command.name = name
    return command


def _broken(why: str) -> Any:
    def refuse() -> None:
        fail(3, why)

    refusing = typer.Typer()
    refusing.command(help=f"Broken: {why}")(refuse)
    return typer.main.get_command(refusing)
