"""Tests that any source must pass while its outside system fails."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from functools import partial

from headrace.plugins.errors import RetriableError
from headrace.plugins.testkit.driving import PLAIN, STOP_S, started
from headrace.plugins.testkit.outside import Failure
from headrace.plugins.testkit.promises import holds, same
from headrace.plugins.testkit.source_contract import WithRig, ends_in_time
from headrace.plugins.testkit.source_drive import SourceDrive, SourceRig


class SourceFaultsContract(WithRig):
    """Tests that any source must pass whose rig has an `outside`, which fails on command."""

    def test_a_retriable_failure_is_raised_and_nothing_is_lost(self, rig: SourceRig) -> None:
        for request in _each_request(rig, Failure.RETRIABLE):
            errors = request.errors
            holds(errors, "a failure outside is raised, and not swallowed", f"request {request.number} failed: 503")
            others = [error for error in errors if not isinstance(error, RetriableError)]
            holds(not others, "a failure that may pass is raised as a RetriableError", f"it was {others!r}")

    def test_a_permanent_failure_fails_the_task(self, rig: SourceRig) -> None:
        for request in _each_request(rig, Failure.PERMANENT):
            errors = request.errors
            holds(errors, "a failure outside is raised, and not swallowed", f"request {request.number} failed: 401")
            others = [error for error in errors if isinstance(error, RetriableError)]
            holds(not others, "a failure that never passes is no RetriableError: it fails the task", f"it was {others}")

    def test_a_dropped_connection_is_opened_anew(self, rig: SourceRig) -> None:
        for request in _each_request(rig, None):
            others = [error for error in request.errors if not isinstance(error, RetriableError)]
            holds(not others, "a lost connection is opened anew, or raised as a RetriableError", f"it was {others!r}")

    def test_the_outside_system_may_restart(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN[:7])
        drive.survive()
        rig.outside.restart()
        rig.put(PLAIN[7:])
        others = [error for error in drive.survive() if not isinstance(error, RetriableError)]
        holds(not others, "a restart outside costs no more than RetriableErrors", f"it was {others!r}")
        same(drive.arrived, PLAIN, "each row arrives once over a restart outside")

    def test_it_ends_within_a_second_while_the_outside_system_is_slow(self, rig: SourceRig) -> None:
        drive = SourceDrive(rig)
        rig.put(PLAIN)
        rig.outside.slow(60)
        running = threading.Thread(target=_run_until_stopped, args=(drive,), daemon=True)
        running.start()
        deadline = time.monotonic() + 10
        while not rig.outside.waiting and time.monotonic() < deadline:
            time.sleep(0.005)
        holds(rig.outside.waiting, "the source asks the outside system", "it made no request in 10 seconds")

        def end() -> None:
            drive.stopping.set()
            running.join(2 * STOP_S)
            drive.task.stop()

        try:
            ends_in_time(end, "a task ends within a second, also while the outside system is slow")
        finally:
            rig.outside.heal()


class _Request:
    """One request of a run that was made to fail."""

    def __init__(self, number: int, errors: list[Exception]) -> None:
        self.number, self.errors = number, errors


def _each_request(rig: SourceRig, failure: Failure | None) -> Iterator[_Request]:
    """Read the same rows again and again, each time with another request failing; None: its connection drops."""
    rig.put(PLAIN)
    for number in range(100):
        if number and rig.forgets:
            rig.put(PLAIN)
        failed = rig.outside.failed
        if failure is None:
            rig.outside.drop_connection(after=number)
        else:
            rig.outside.fail_next(failure, after=number)
        errors, drive = started(partial(SourceDrive, rig))
        try:
            errors += drive.survive()
            rig.outside.heal()
            if rig.outside.failed > failed and not errors:
                errors += drive.survive()  # what failed behind the last row may be told only now
        finally:
            drive.end()
        if rig.outside.failed == failed:
            holds(number, "the source asks the rig's outside system", "it made no request that could fail")
            return
        kind = "connection" if failure is None else f"{failure} failure"
        # What is not acknowledged comes again with a new task.
        arrived = list(dict.fromkeys(drive.arrived)) if rig.forgets else drive.arrived
        same(arrived, PLAIN, f"each row arrives once over a {kind} in request {number}")
        yield _Request(number, errors)


def _run_until_stopped(drive: SourceDrive) -> None:
    with contextlib.suppress(Exception):  # the end is asked for: it may be left by any
        while not drive.stopping.is_set():
            plan = drive.plan()
            if plan is not None:
                drive.rows(plan)
