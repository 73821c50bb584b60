"""The arithmetic of the benchmark: a wrong percentile or verdict would be believed."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bench.cluster import Part, shared
from tests.bench.curve import missing, svg
from tests.bench.latency import PADDING, Seen, appends, percentile
from tests.bench.lines import LINE_BYTES, check_file, check_values, envelope, expected_values, line, write_lines
from tests.bench.processes import Cost, Failed
from tests.bench.rebalance import whole_lines
from tests.bench.report import Outcome, markdown, summarize
from tests.bench.rest import body_length


def test_every_line_has_the_stated_length() -> None:
    assert {len(line(number)) for number in (0, 1, 15, 16, 1_999_999)} == {LINE_BYTES}


def test_envelope_is_what_the_java_json_converter_writes() -> None:
    assert envelope('a"b\\ü') == '{"schema":{"type":"string","optional":false},"payload":"a\\"b\\\\ü"}'.encode()


def test_output_that_lost_repeated_or_swapped_a_line_is_refused(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "in.txt", 5)
    good = list(expected_values(file, 5))
    check_values(good, file, 5)
    for bad in (good[:4] + good[3:4], [good[1], good[0], *good[2:]]):
        with pytest.raises(Failed):
            check_values(bad, file, 5)
    out = tmp_path / "out.txt"
    out.write_bytes(file.read_bytes()[: 5 * LINE_BYTES])
    check_file(out, file, 5)
    out.write_bytes(out.read_bytes().replace(b"0000000003", b"0000000004"))
    with pytest.raises(Failed):
        check_file(out, file, 5)


def test_a_torn_line_counts_when_its_end_is_seen() -> None:
    assert list(Seen([(1, b"a\nb"), (2, b"c\n"), (3, b"d")]).lines()) == [(1, "a"), (2, "bc")]


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (99, 99), (100, 100)])
def test_percentile_is_the_nearest_rank(percent: int, expected: int) -> None:
    assert percentile(list(range(1, 101)), percent) == expected


def test_others_are_what_neither_side_nor_broker_nor_bench_used() -> None:
    spent = Cost(12, 5, 2, 9, 1) - Cost(10, 4, 2, 6.5, 1)
    assert spent.shares() == {"cpu_pct": 50, "broker_cpu_pct": 0, "others_cpu_pct": 75}


def test_verdicts_take_the_median_of_the_repeats() -> None:
    rates = {"apache-default": [100.0, 90, 500], "apache-tuned": [200.0] * 3, "headrace": [210.0, 205, 10]}
    outcomes = [
        Outcome("throughput-source", side, n, {"rec_s": value})
        for side, values in rates.items()
        for n, value in enumerate(values)
    ]
    row = summarize(outcomes)[0]
    assert row["to_default"] == 2.05
    assert row["bar"] == {"text": "2 × default, 0.9 × tuned", "holds": True}
    assert row["stretch"] == {"text": "1.3 × tuned", "holds": False}
    assert "205 (10.0–210)" in markdown([row])


def test_a_side_without_figures_makes_the_verdict_unknown() -> None:
    row = summarize([Outcome("idle-100", "headrace", 1, {}, "died"), Outcome("idle-100", "apache-default", 1, {})])[0]
    assert row["bar"] == {"text": "≤ 10", "holds": None}


def test_a_bar_that_asks_nothing_of_the_other_sides_is_judged_without_them() -> None:
    rows = summarize([Outcome("rest-loaded", "headrace", 1, {"p99_ms": 101.0})])
    assert [row["bar"] for row in rows if row["key"] == "p99_ms"] == [{"text": "≤ 100", "holds": False}]


def _parts(*workers: str, state: str = "RUNNING") -> dict[str, Part]:
    return {"c": Part("RUNNING", "a"), **{f"c-{n}": Part(state, worker) for n, worker in enumerate(workers)}}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (_parts("a", "b", "a"), True),
        (_parts("a", "a", "a"), False),  # none for b
        (_parts("a", "b"), False),  # one has no status yet
        (_parts("a", "b", "gone"), False),
        (_parts("a", "b", "a", state="UNASSIGNED"), False),
        ({}, False),
    ],
)
def test_tasks_are_shared_when_all_run_evenly_on_the_workers_there_are(parts: dict[str, Part], expected: bool) -> None:
    assert shared(parts, {"c": 3}, {"a", "b"}) is expected


def test_a_line_that_a_kill_tore_is_none(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    out.write_text(f"hello\n0 17 {PADDING}\n1 18 {PADDING[:9]}1 18 {PADDING}\n1 18 {PADDING}\n2 19 {PADDING}")
    assert whole_lines(out) == [(0, 17), (1, 18)]
    assert whole_lines(out, after=len("hello\n0")) == [(1, 18)]


def test_only_a_good_answer_of_known_length_counts() -> None:
    assert body_length(b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 17") == 17
    for bad in (b"HTTP/1.1 404 Not Found\r\nContent-Length: 200", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"):
        with pytest.raises(Failed):
            body_length(bad)


@pytest.mark.parametrize(
    ("measure", "bar", "stretch"),
    [("structs-bad", 0.7, 0.9), ("avro", 0.6, 0.8), ("files-avro-hdfs", 0.7, 0.9), ("files-json", 1.5, 2)],
)
def test_what_is_beside_our_own_rate_needs_no_other_side(measure: str, bar: float, stretch: float) -> None:
    for ratio in (bar - 0.01, bar, stretch):
        (row,) = (r for r in summarize([Outcome(measure, "headrace", 1, {"ratio": ratio})]) if r["key"] == "ratio")
        assert row["bar"] == {"text": f"≥ {bar}", "holds": ratio >= bar}
        assert row["stretch"] == {"text": f"≥ {stretch}", "holds": ratio >= stretch}


def test_every_file_gets_its_share_of_the_lines() -> None:
    assert appends(100, 3, 30) == 1000
    assert appends(1, 1 / 20, 30) == 600


def test_picture_has_every_side_that_was_measured_and_asks_for_the_rest() -> None:
    outcomes = [
        Outcome("latency-20x5", side, 1, {"cpu_pct": cpu, "p99_ms": 6.0})
        for side, cpu in (("apache-default", 20.0), ("headrace", 40.0), ("headrace", 50.0))
    ]
    root = ElementTree.fromstring(svg(outcomes, "two < four"))
    heights = [float(dot.get("cy", "")) for dot in root.iter("{http://www.w3.org/2000/svg}circle")]
    cpu, p99 = heights[:2], heights[2:]
    assert cpu[0] > cpu[1]  # more of a core stands higher
    assert p99[0] == p99[1]
    assert "latency-20x5" not in missing(outcomes)
    assert "latency-1" in missing(outcomes)
