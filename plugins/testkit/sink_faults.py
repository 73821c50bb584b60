"""Tests that any sink must pass while its outside system fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from headrace.plugins.errors import RetriableError
from headrace.plugins.testkit.driving import PLAIN, started
from headrace.plugins.testkit.outside import Failure
from headrace.plugins.testkit.promises import holds, keeping, same
from headrace.plugins.testkit.sink_contract import WithRig
from headrace.plugins.testkit.sink_drive import SinkDrive, SinkRig


class SinkFaultsContract(WithRig):
    """Tests that any sink must pass whose rig has an `outside`, which fails on command."""

    def test_a_retriable_failure_is_raised_and_nothing_is_lost(self, rig: SinkRig) -> None:
        for number, errors in _each_request(rig, Failure.RETRIABLE):
            holds(errors, "a failure outside is raised, and not swallowed", f"request {number} failed: 503")
            others = [error for error in errors if not isinstance(error, RetriableError)]
            holds(not others, "a failure that may pass is raised as a RetriableError", f"it was {others!r}")

    def test_a_permanent_failure_fails_the_task(self, rig: SinkRig) -> None:
        for number, errors in _each_request(rig, Failure.PERMANENT):
            holds(errors, "a failure outside is raised, and not swallowed", f"request {number} failed: 401")
            others = [error for error in errors if isinstance(error, RetriableError)]
            holds(not others, "a failure that never passes is no RetriableError: it fails the task", f"it was {others}")

    def test_a_dropped_connection_is_opened_anew(self, rig: SinkRig) -> None:
        for _, errors in _each_request(rig, None):
            others = [error for error in errors if not isinstance(error, RetriableError)]
            holds(not others, "a lost connection is opened anew, or raised as a RetriableError", f"it was {others!r}")

    def test_the_outside_system_may_restart(self, rig: SinkRig, drive: SinkDrive) -> None:
        errors = drive.survive(PLAIN[:7])
        rig.outside.restart()
        others = [error for error in errors + drive.survive(PLAIN[7:]) if not isinstance(error, RetriableError)]
        holds(not others, "a restart outside costs no more than RetriableErrors", f"it was {others!r}")
        same(list(dict.fromkeys(rig.contents())), PLAIN, "nothing is lost over a restart outside")

    @pytest.mark.parametrize("bad", [(0,), (8,), (13, 14), (0, 7, 19), range(20)], ids=str)
    def test_refused_records_are_named_exactly(self, rig: SinkRig, drive: SinkDrive, bad: Sequence[int]) -> None:
        refused = [PLAIN[number] for number in bad]
        rig.outside.refuse(refused)
        promise = "the records that the outside system refuses are named, and no others"
        with keeping(promise):
            same(drive.put(PLAIN, rows=7), refused, promise)
        good = [value for value in PLAIN if value not in refused]
        contents = [value for value in rig.contents() if value in PLAIN]
        same(list(dict.fromkeys(contents)), good, "all records that are not refused are written")


def _each_request(rig: SinkRig, failure: Failure | None) -> Iterator[tuple[int, list[Exception]]]:
    """Write batch after batch, each time with another request failing; None: its connection drops.

    Yield the request's number and the errors of its batch, once all of the batch is outside.
    """
    kind = "dropped connection" if failure is None else f"{failure} failure"
    wanted: list[str] = []
    position = 0  # goes on, for a sink may know records by their offsets
    for number in range(100):
        values, failed = [f"{number}.{row}" for row in range(8)], rig.outside.failed
        if failure is None:
            rig.outside.drop_connection(after=number)
        else:
            rig.outside.fail_next(failure, after=number)
        errors, drive = started(partial(SinkDrive, rig, position))
        errors += drive.survive(values)
        has_failed = rig.outside.failed > failed
        rig.outside.heal()
        drive.end()
        position = drive.position
        wanted += values
        same(list(dict.fromkeys(rig.contents())), wanted, f"nothing is lost over a {kind} in request {number}")
        if not has_failed:
            holds(number, "the sink asks the rig's outside system", "it made no request that could fail")
            return
        yield number, errors
