"""The arithmetic of the soak: a leak, a lost line or a late cluster must not pass as none."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.soak.growth import common_slope, growth
from tests.soak.picture import rounded_up, svg
from tests.soak.pipes import BAD_EVERY, Mix
from tests.soak.shaking import times
from tests.soak.streams import End, FileEnd, Stream, line
from tests.soak.verdict import markdown, rows

PARTS = ("worker", "spark", "others")


def sample(at_s: float, mb: float = 300.0, pid: int = 7, **other: Any) -> dict[str, Any]:
    held = {"mb": mb, "threads": 40.0, "handles": 90.0, "cpu_s": at_s / 10}
    found = {
        "at_s": at_s,
        "doing": "",
        "workers": {"w0": {"pid": pid, **dict.fromkeys(PARTS, held)}},
        "broker": held,
        "available_mb": 9000,
        "late_s": 0.2,
        "states": {"RUNNING": 80},
        "rest_ms": {"w0": 20.0},
        "topics_mb": {"offsets": 1.0},
    }
    return found | other


def figures(**other: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "sent": 10,
        "arrived": 10,
        "connectors": 40,
        "created_s": 5.0,
        "running_s": 9.0,
        "twice": {"quiet": 0},
        "lost": {},
        "odd": {},
        "not_once": {},
        "faults": [],
        "scale": {"settle_s": 600},
        "events": [{"at_s": 60.0, "what": "kill -9 w1", "settled_s": 40.0}],
    }
    return found | other


def broken(figures: dict[str, Any], samples: list[dict[str, Any]]) -> list[str]:
    return [row.what for row in rows(figures, samples) if not row.holds]


def test_a_quiet_run_holds_all_bounds() -> None:
    samples = [sample(10.0 * n, mb=300 + random.Random(n).gauss(0, 3)) for n in range(360)]
    found = rows(figures(), samples)
    assert [row.what for row in found if not row.holds] == []
    assert "**no**" not in markdown(found)


def test_a_leak_is_seen_over_the_restarts_that_hide_it() -> None:
    """Each life begins at the same level and ends 12 MB higher."""
    noise = random.Random(3)
    samples = [
        sample(10.0 * n, mb=300 + 12 * (n % 180) / 180 + noise.gauss(0, 2), pid=1 + n // 180) for n in range(1440)
    ]
    found = growth(samples, "w0", "worker", "mb")
    assert found is not None
    assert found.an_hour == pytest.approx(24, abs=3)
    assert found.sure(1) > 0.05
    assert "w0, worker: MB" in broken(figures(), samples)


def test_noise_without_a_trend_is_no_growth() -> None:
    """Neighbours that resemble each other are fewer than they are."""
    noise, value, series = random.Random(5), 300.0, list[tuple[float, float]]()
    for n in range(360):
        value += 0.1 * (300 - value) + noise.gauss(0, 2)
        series.append((n / 360, value))
    found = common_slope([series])
    assert found is not None
    assert abs(found.an_hour) < 2 * found.error
    assert common_slope([[(1.0, 2.0)]]) is None


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"lost": {"quiet0 file": [3]}}, "ends with lines that are lost"),
        ({"odd": {"quiet0 file": "[b'0000']"}}, "ends with lines that are torn or of nobody"),
        ({"not_once": {"table0": "2 rows of 3 records"}}, "tables with a record more or less than once"),
        ({"faults": ["w1 ended with 1"]}, "what went wrong on the way"),
        (
            {"events": [{"at_s": 60.0, "what": "kill -9 w1", "settled_s": 601.0}]},
            "`kill -9` → all RUNNING, no line late",
        ),
    ],
)
def test_what_went_wrong_breaks_a_bound(changed: dict[str, Any], what: str) -> None:
    assert broken(figures(**changed), [sample(10.0 * n) for n in range(60)]) == [what]


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"late_s": 31.0}, "oldest line under way, at rest"),
        ({"states": {"RUNNING": 79, "FAILED": 1}}, "samples at rest with other states than RUNNING"),
        ({"rest_ms": {"w0": 3_000.0}}, "GET /connectors?expand=status, at rest"),
        ({"rest_ms": {"w0": 11_000.0}, "doing": "kill -9 w1"}, "GET /connectors?expand=status, at all times"),
        ({"topics_mb": {"offsets": 40.0}}, "internal topic of offsets: second quarter, last quarter"),
    ],
)
def test_one_bad_sample_breaks_a_bound(changed: dict[str, Any], what: str) -> None:
    samples = [sample(10.0 * n) for n in range(60)]
    assert broken(figures(), [*samples, sample(600.0, **changed)]) == [what]
    if "late_s" in changed:
        assert broken(figures(), [*samples, sample(600.0, doing="kill -9 w1", **changed)]) == []


def test_an_end_tells_what_is_missing_again_and_torn(tmp_path: Path) -> None:
    stream, path = Stream("quiet0"), tmp_path / "out"
    end, odd = FileEnd("file", stream, path), End("odd", stream, lambda number: number % 2 == 1)
    for at in range(4):
        stream.next_line(float(at))
    texts = [line("quiet0", number) for number in (0, 3, 3)]
    path.write_text("\n".join([*texts, "000000001 qui\n", "00000"]))
    end.look()
    end.look()
    assert (end.waiting(), end.twice, end.odd, end.late_s(10.0)) == ([1, 2], 1, [b"000000001 qui", b""], 9.0)
    odd.take([line("quiet0", 1).encode(), line("quiet0", 2).encode()])
    assert (odd.waiting(), len(odd.odd), odd.arrived) == ([3], 1, 1)


def test_a_mix_has_all_kinds_and_as_many_connectors_as_asked(tmp_path: Path) -> None:
    mix = Mix.of(tmp_path / "pipes", "localhost:9092", 500)
    assert len(mix.connectors()) == 500
    assert mix.counts() == "204 quiet, 25 steady, 15 table, 5 letters"
    letters = next(pipe for pipe in mix.pipes if pipe.kind == "letters")
    for at in range(BAD_EVERY):
        letters.send(float(at))
    assert letters.source.read_text().count('{"line": ') == BAD_EVERY - 1
    assert len(set(mix.topics)) == len(mix.topics)
    for pipe in mix.pipes:
        pipe.close()
    with pytest.raises(ValueError, match="too few"):
        Mix.of(tmp_path / "few", "localhost:9092", 8)


def test_the_plan_of_a_run() -> None:
    assert times(100, 20, 50) == [(10, "kill"), (30, "kill"), (50, "kill"), (50, "roll"), (70, "kill")]
    assert times(10, 0, 0) == []


def test_the_picture_is_an_svg_with_every_panel() -> None:
    samples = [sample(10.0 * n) for n in range(1000)] + [sample(10_000.0, rest_ms={})]
    found = svg(samples, figures()["events"], "a <note>")
    root = ElementTree.fromstring(found)
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 10
    assert len(found) < 120_000
    assert [rounded_up(value) for value in (0.4, 1.2, 99, 301)] == [1.0, 1.5, 100, 400]
