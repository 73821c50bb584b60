"""One run of `headrace mirror verify`: the report on standard output, progress on a terminal, the exit code."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from headrace.config.problems import ConfigError
from headrace.connectors.mirror.verify import comparing
from headrace.connectors.mirror.verify.flow import VerifiedFlow
from headrace.connectors.mirror.verify.reading import UnreachableError
from headrace.connectors.mirror.verify.report import as_json, as_text
from headrace.connectors.mirror.verify.request import Asked, UsageError
from headrace.connectors.mirror.verify.state import StateError
from headrace.connectors.mirror.verify.verification import Verification

EQUAL: Final = 0
DIFFERENT: Final = 1
WRONG_USE: Final = 2
UNREACHABLE: Final = 3


def verify(
    source: str,
    target: str,
    file: Path | None,
    servers: Mapping[str, str | None],
    settings: Sequence[str],
    asked: Asked,
    json_wanted: bool,
) -> int:
    """Verify, and show the findings; return the exit code."""
    try:
        flow = VerifiedFlow.of(source, target, file, servers, settings)
        with _quiet(), _progress() as progress:
            report = Verification(flow, asked, progress).run()
    except (UsageError, ConfigError) as e:
        return _failed(WRONG_USE, e)
    except StateError as e:
        return _failed(DIFFERENT, e)
    except UnreachableError as e:
        return _failed(UNREACHABLE, e)
    if json_wanted:
        typer.echo(json.dumps(as_json(report), indent=2))
    else:
        for line in as_text(report):
            typer.echo(line)
    return EQUAL if report.is_good() else DIFFERENT


def _failed(code: int, error: Exception) -> int:
    typer.echo(f"headrace: {error}", err=True)
    return code


@contextmanager
def _quiet() -> Iterator[None]:
    """Logs errors only inside: a client's chatter is no part of the report."""
    log = logging.getLogger("headrace")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


@contextmanager
def _progress() -> Iterator[comparing.Progress]:
    """Draws a bar for each side, on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda side, done, more: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks = {side: bars.add_task(f"records of the {side}", total=0) for side in ("source", "target")}
        totals = dict.fromkeys(tasks, 0)

        def advance(side: str, done: int, more: int) -> None:
            totals[side] += more
            bars.update(tasks[side], total=totals[side], advance=done)

        yield advance
