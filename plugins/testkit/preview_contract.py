"""Tests that a sink must pass which says what it would write."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plugins.extensions import Effect
from headrace.plugins.testkit.driving import PLAIN
from headrace.plugins.testkit.promises import holds, keeping, same
from headrace.plugins.testkit.sink_contract import WithRig
from headrace.plugins.testkit.sink_drive import SinkDrive, SinkRig


class PreviewedSinkContract(WithRig):
    """Tests that a `PreviewedSink` must pass, or a RecordSink with a `would_write`; the rig has `previewed`."""

    def test_a_preview_changes_nothing(self, rig: SinkRig) -> None:
        before = rig.state()
        _preview(rig, PLAIN)
        same(rig.state(), before, "a preview changes nothing outside, before anything was written")
        drive = SinkDrive(rig)
        drive.run(PLAIN[:7])
        before = rig.state()
        _preview(rig, PLAIN[7:], first=7)
        same(rig.state(), before, "a preview changes nothing outside, beside a task that writes")
        drive.run(PLAIN[7:])
        same(rig.contents(), PLAIN, "a task goes on beside a preview")
        drive.end()

    def test_a_preview_tells_what_is_then_written(self, rig: SinkRig) -> None:
        told = rig.previewed(_preview(rig, PLAIN))
        drive = SinkDrive(rig)
        drive.run(PLAIN)
        same(told, rig.contents(), "a preview tells what is then written")
        drive.end()

    def test_a_preview_tells_hostile_values_as_they_are(self, rig: SinkRig) -> None:
        told = rig.previewed(_preview(rig, rig.hostile))
        drive = SinkDrive(rig)
        drive.run(rig.hostile)
        same(told, rig.contents(), "a preview tells hostile values as they are then written")
        drive.end()

    def test_effects_name_their_records(self, rig: SinkRig) -> None:
        rows = [effect.row for effect in _preview(rig, PLAIN) if effect.row is not None]
        outside = [row for row in rows if not 0 <= row < len(PLAIN)]
        holds(not outside, "`Effect.row` is the index of a record", f"{outside} of {len(PLAIN)} records")
        same(sorted(set(rows)), list(range(len(PLAIN))), "each record that is written has an effect")


def _preview(rig: SinkRig, values: Sequence[str], first: int = 0) -> list[Effect]:
    drive = SinkDrive(rig, is_preview=True)
    drive.position = first
    try:
        with keeping("a preview raises nothing for good records"):
            return drive.preview(values)
    finally:
        drive.end()
