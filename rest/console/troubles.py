"""Finds what is wrong now: a sentence for each trouble, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.rest.console.endpoints import Answer

_LONGEST: Final = 300
_AGAIN: Final = ("Attempt ", "No attempt follows")
"""Beginnings of the sentence about the next start, which ends a failed task's trace."""


_TOLD: Final = "FAILED here"


@dataclass(frozen=True)
class Trouble:
    """Something that is wrong."""

    text: str
    advice: str
    connector: str | None = None


def of_worker(health: Answer) -> Iterator[Trouble]:
    """The troubles of the worker that was asked, and of its tasks that do not move; `health`: of /health?strict."""
    for task in health.get("unhealthy_tasks", ()):
        text = f"Task {task['task']} is running and does not move: {task['message']}"
        yield Trouble(text, "Look at the log lines of the connector; restart the task.", task["connector"])
    if health.get("status") == "starting":
        yield Trouble(health.get("message", ""), "Wait: this worker has to read its cluster's connectors first.")
        return
    for one in [] if health.ok else str(health.get("message", "")).split("; "):
        if one and not one.startswith(_TOLD):  # of those that failed the statuses tell more
            yield Trouble(f"This worker is not well: {one}.", "Look at its log, and at the brokers.")


def of_connectors(statuses: Mapping[str, Any]) -> Iterator[Trouble]:
    """The troubles that statuses tell."""
    for name, status in statuses.items():
        yield from _of_connector(name, status)


def _of_connector(name: str, status: Mapping[str, Any]) -> Iterator[Trouble]:
    own, tasks = status["connector"], status["tasks"]
    if own["state"] == "FAILED":
        yield Trouble(f"It failed: {reason(own.get('trace', ''))}", "Mend the cause, then restart it.", name)
    for task in tasks:
        if task["state"] == "FAILED":
            trace = task.get("trace", "")
            advice = next_start(trace) or "Mend the cause, then restart the task; it does not restart by itself."
            yield Trouble(f"Task {task['id']} failed: {reason(trace)}", advice, name)
    waiting = Counter(one["state"] for one in (own, *tasks))
    if waiting["UNASSIGNED"]:
        advice = "If this lasts for minutes, look whether all workers of the cluster run."
        yield Trouble(f"{waiting['UNASSIGNED']} of its parts run nowhere.", advice, name)
    if own["state"] == "RUNNING" and not tasks:
        yield Trouble("It runs, and has no tasks.", "Its log lines say what it looked for and did not find.", name)


def reason(trace: str) -> str:
    """The first line of a trace, shortened."""
    line = trace.strip().partition("\n")[0]
    if not line:
        return "no reason is known."
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def next_start(trace: str) -> str:
    """The sentence about the next start of a failed task; empty if its trace has none."""
    return next((line.strip() for line in reversed(trace.splitlines()) if line.strip().startswith(_AGAIN)), "")


def by_state(statuses: Mapping[str, Any]) -> tuple[Counter[str], Counter[str]]:
    """The number of connectors and of tasks in each state."""
    connectors = Counter(one["connector"]["state"] for one in statuses.values())
    return connectors, Counter(task["state"] for one in statuses.values() for task in one["tasks"])


def workers(statuses: Mapping[str, Any], known: Iterable[str]) -> Mapping[str, Sequence[int]]:
    """The workers by name, with the number of connectors and tasks that each runs; `known`: names or URLs of some."""
    found = {worker_of(one): [0, 0] for one in known}
    for one in statuses.values():
        for index, parts in enumerate(([one["connector"]], one["tasks"])):
            for part in parts:
                if part["state"] != "UNASSIGNED":
                    found.setdefault(part["worker_id"], [0, 0])[index] += 1
    return dict(sorted(found.items()))


def worker_of(url: str) -> str:
    """The name that statuses have for the worker at a URL; names stay as they are."""
    return (urlsplit(url).netloc or url).replace("[", "").replace("]", "")
