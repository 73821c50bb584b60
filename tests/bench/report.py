"""Sums up the runs: medians, ranges, ratios, and whether the bars of the issue hold."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from tests.bench.context import Figures

DEFAULT, TUNED, HEADRACE = "apache-default", "apache-tuned", "headrace"


@dataclass(frozen=True)
class Outcome:
    """One run: its figures, or why there are none."""

    measure: str
    side: str
    repeat: int
    figures: Figures
    failure: str | None = None


@dataclass(frozen=True)
class Figure:
    """Median and range over the repeats."""

    median: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Figure | None":
        return cls(statistics.median(values), min(values), max(values), len(values)) if values else None


Test = Callable[[float, float, float], bool]  # of headrace, default and tuned


@dataclass(frozen=True)
class Bar:
    """A demand as the issue words it."""

    text: str
    holds: Test
    alone: bool = False
    """True if it asks nothing of the other sides."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    measure: str
    key: str
    unit: str
    bar: Bar | None = None
    stretch: Bar | None = None


def _at_most(limit: float) -> Bar:
    return Bar(f"≤ {limit:g}", lambda h, a, t: h <= limit, alone=True)


def _at_least(limit: float) -> Bar:
    return Bar(f"≥ {limit:g}", lambda h, a, t: h >= limit, alone=True)


def _tuned(times: float) -> Bar:
    return Bar(f"≤ {times:g} × tuned", lambda h, a, t: h <= times * t)


def _default(times: float) -> Bar:
    return Bar(f"≤ {times:g} × default", lambda h, a, t: h <= times * a)


def _small(what: str, measure: str, p99: Sequence[Bar], cpu: Sequence[Bar]) -> Sequence[Row]:
    """The rows of many small connectors; `p99` and `cpu`: bar and stretch, if any."""
    return (
        Row(what, measure, "p50_ms", "p50 ms"),
        Row(what, measure, "p99_ms", "p99 ms", *p99),
        Row(what, measure, "cpu_pct", "% core", *cpu),
    )


ROWS = (
    Row(
        "file → topic",
        "throughput-source",
        "rec_s",
        "rec/s",
        Bar("2 × default, 0.9 × tuned", lambda h, a, t: h >= 2 * a and h >= 0.9 * t),
        Bar("1.3 × tuned", lambda h, a, t: h >= 1.3 * t),
    ),
    Row("file → topic", "throughput-source", "rec_cpu_s", "rec/CPU-s"),
    Row(
        "topic → file, committed",
        "throughput-sink",
        "rec_s",
        "rec/s",
        Bar("1.2 × default, 1.0 × tuned", lambda h, a, t: h >= 1.2 * a and h >= t),
        Bar("2 × both", lambda h, a, t: h >= 2 * max(a, t)),
    ),
    Row("topic → file, committed", "throughput-sink", "rec_cpu_s", "rec/CPU-s"),
    Row(
        "file → topic, no envelope",
        "source-no-schema",
        "rec_s",
        "rec/s",
        Bar("2 × default, 0.9 × tuned", lambda h, a, t: h >= 2 * a and h >= 0.9 * t),
    ),
    Row("file → topic, exactly once", "source-exactly-once", "rec_s", "rec/s"),
    Row("file → topic, exactly once", "source-exactly-once", "rec_cpu_s", "rec/CPU-s"),
    *(
        Row(
            what,
            measure,
            "rec_s",
            "rec/s",
            Bar(f"{bar:g} × tuned", lambda h, a, t, bar=bar: h >= bar * t),  # type: ignore[misc]
            Bar(f"{stretch:g} × tuned", lambda h, a, t, stretch=stretch: h >= stretch * t),  # type: ignore[misc]
        )
        for what, measure, bar, stretch in (
            ("JSON structs → file", "structs", 1.8, 4.0),
            ("the same, 5 transforms", "structs-transforms", 2.5, 5.0),
        )
    ),
    Row("JSON structs → file", "structs", "rec_cpu_s", "rec/CPU-s"),
    Row("the same, 5 transforms", "structs-transforms", "rec_cpu_s", "rec/CPU-s"),
    Row("the same, 0.1 % dead letters", "structs-bad", "rec_s", "rec/s"),
    Row("the same to its rate without them", "structs-bad", "ratio", "×", _at_least(0.7), _at_least(0.9)),
    *(
        Row(
            f"JSON structs → PostgreSQL, {what}",
            measure,
            "rec_s",
            "rec/s",
            Bar(f"{bar:g} × tuned", lambda h, a, t, bar=bar: h >= bar * t),  # type: ignore[misc]
            Bar("3 × tuned", lambda h, a, t: h >= 3 * t),
        )
        for what, measure, bar in (("half updates", "jdbc-upsert", 1.3), ("insert", "jdbc-insert", 1.5))
    ),
    Row("the same, half updates", "jdbc-upsert", "rec_cpu_s", "rec/CPU-s"),
    Row("the same, half updates", "jdbc-upsert", "database_cpu_s", "CPU-s of the database"),
    Row("kill -9 amid inserts", "jdbc-killed", "duplicates", "rows", _at_most(0)),
    Row("kill -9 amid inserts", "jdbc-killed", "lost", "rows", _at_most(0)),
    Row("kill -9 amid inserts, until more rows", "jdbc-killed", "resumed_s", "s"),
    *(
        Row(
            what,
            measure,
            "rec_cpu_s",
            "rec/CPU-s",
            Bar(f"{bar:g} × tuned", lambda h, a, t, bar=bar: h >= bar * t),  # type: ignore[misc]
            Bar(f"{stretch:g} × tuned", lambda h, a, t, stretch=stretch: h >= stretch * t),  # type: ignore[misc]
        )
        for what, measure, bar, stretch in (
            ("file → topic by FileStreamSource's jar", "java-source", 0.6, 1),
            ("topic → file by FileStreamSink's jar", "java-sink", 0.6, 1),
            ("JSON structs → PostgreSQL by Debezium's jar", "java-jdbc-sink", 0.8, 1),
            ("PostgreSQL → Avro by Debezium's snapshot", "java-debezium", 0.8, 1.5),
        )
    ),
    Row(
        "a worker with a Java source over one without", "java-memory", "more_mb", "MB PSS", _at_most(150), _at_most(100)
    ),
    Row("PostgreSQL table → topic, bulk", "jdbc-bulk", "rec_s", "rec/s"),
    Row("the same to a plain Spark JDBC read and write", "jdbc-bulk", "ratio", "×", _at_least(1.5)),
    *(
        row
        for where, measure in (("local disk", "files-avro"), ("HDFS", "files-avro-hdfs"))
        for row in (
            Row(f"Avro → Parquet, {where}", measure, "rec_s", "rec/s"),
            Row("the same to Spark's read, decode and write", measure, "ratio", "×", _at_least(0.7), _at_least(0.9)),
        )
    ),
    *(
        row
        for what, measure in (("1 partition", "files-json"), ("4 partitions", "files-json-4"))
        for row in (
            Row(f"JSON structs → Parquet, {what}", measure, "rec_s", "rec/s"),
            Row("the same to JSON structs → file", measure, "ratio", "×", _at_least(1.5), _at_least(2)),
            Row("the same to Spark's read, from_json and write", measure, "of_plain", "×"),
        )
    ),
    Row("JSON structs → Parquet, memory", "files-memory", "last_mb", "MB PSS"),
    Row("the same, last quarter to second", "files-memory", "growth", "×", _at_most(1.1)),
    *(
        Row(f"rotation due → 10 files visible, {where}", measure, f"{p}_ms", f"{p} ms", *bars)
        for where, measure in (("local disk", "files-rotation"), ("HDFS", "files-rotation-hdfs"))
        for p, bars in (("p50", ()), ("p99", (_at_most(1_000), _at_most(300))))
    ),
    Row("Avro → Iceberg, 4 partitions", "iceberg-avro", "rec_s", "rec/s"),
    Row("the same to Spark's read, decode and write", "iceberg-avro", "ratio", "×", _at_least(0.7)),
    Row("… by CPU time", "iceberg-avro", "cpu_ratio", "×", _at_least(0.7)),
    Row(
        "… by CPU time, beside Apache's sink",
        "iceberg-avro",
        "rec_cpu_s",
        "rec/CPU-s",
        Bar("2 × default", lambda h, a, t: h >= 2 * a),
    ),
    Row(
        "JSON structs → Iceberg, 4 partitions",
        "iceberg-json",
        "rec_cpu_s",
        "rec/CPU-s",
        Bar("2 × default", lambda h, a, t: h >= 2 * a),
    ),
    Row("changes → Iceberg, upserted, to appended", "iceberg-upsert", "ratio", "×", _at_least(0.4)),
    Row("sent → visible in Iceberg, 10/s", "iceberg-latency", "p99_ms", "p99 ms", _at_most(2_500)),
    Row("JSON structs → Iceberg, memory", "iceberg-memory", "last_mb", "MB PSS"),
    Row("the same, last quarter to second", "iceberg-memory", "growth", "×", _at_most(1.1)),
    *(
        Row(what, measure, "rec_cpu_s", "rec/CPU-s", _at_least(200_000))
        for what, measure in (
            ("Datagen → topic of JSON", "datagen-json"),
            ("… by two tasks", "datagen-json-2"),
            ("Datagen → topic of Avro", "datagen-avro"),
        )
    ),
    *(
        row
        for what, measure in (
            ("dicts by a RecordSource → topic", "records-source"),
            ("… to a RecordSink", "records-sink"),
        )
        for row in (
            Row(what, measure, "rec_cpu_s", "rec/CPU-s", _at_least(60_000)),
            Row("the same by Arrow batches", measure, "arrow_rec_cpu_s", "rec/CPU-s"),
        )
    ),
    Row("poll → topic, 1,000/s", "records-latency", "p99_ms", "p99 ms", _at_most(50)),
    Row("Avro structs decoded and counted", "avro", "rec_s", "rec/s"),
    Row("the same to Spark's read and count", "avro", "ratio", "×", _at_least(0.6), _at_least(0.8)),
    Row("JSON with a JSON Schema to Avro, by CPU time", "json-schema", "ratio", "×", _at_least(0.5)),
    *_small("1 sink × 50/s", "latency-1", p99=(_tuned(2), _tuned(1.2)), cpu=(_at_most(15), _at_most(12))),
    *_small("20 sinks × 5/s", "latency-20x5", p99=(_at_most(10), _at_most(6)), cpu=(_at_most(30), _at_most(22))),
    *_small("20 sinks × 50/s", "latency-20x50", p99=(_at_most(25), _at_most(10)), cpu=(_at_most(55), _at_most(35))),
    *_small("100 sinks × 5/s", "latency-100x5", p99=(_tuned(2), _tuned(1.2)), cpu=(_tuned(2), _tuned(1.2))),
    *_small("200 connectors, a line each 3 s", "trickle-200", p99=(), cpu=(_at_most(15), _at_most(10))),
    *_small("20 file sources and 20 sinks × 50/s", "pairs-20x50", p99=(), cpu=()),
    Row("1 sink, memory", "latency-1", "pss_mb", "MB PSS"),
    Row("20 sinks, memory", "latency-20x5", "pss_mb", "MB PSS", _default(1.4), _default(1.2)),
    Row("20 sinks, memory", "latency-20x5", "rss_mb", "MB RSS"),
    Row("200 connectors, memory", "trickle-200", "pss_mb", "MB PSS"),
    Row("line appended → topic", "latency-source", "p50_ms", "p50 ms"),
    Row(
        "line appended → topic",
        "latency-source",
        "p99_ms",
        "p99 ms",
        Bar("≤ 250 and < Apache", lambda h, a, t: h <= 250 and h < min(a, t)),
        _at_most(60),
    ),
    Row("line appended → topic", "latency-source", "cpu_pct", "% core"),
    Row(
        "cluster → cluster, 170 bytes",
        "mirror",
        "rec_s",
        "rec/s",
        Bar("2 × default, 1.2 × tuned", lambda h, a, t: h >= 2 * a and h >= 1.2 * t),
        Bar("2 × tuned", lambda h, a, t: h >= 2 * t),
    ),
    Row(
        "cluster → cluster, 170 bytes",
        "mirror",
        "rec_cpu_s",
        "rec/CPU-s",
        Bar("1.2 × tuned", lambda h, a, t: h >= 1.2 * t),
    ),
    *(
        Row(f"cluster → cluster, {size} KB", f"mirror-{size}k", key, unit, bar, stretch)
        for size in (1, 10)
        for key, unit, bar, stretch in (
            (
                "mb_s",
                "MB/s",
                Bar("1.2 × tuned", lambda h, a, t: h >= 1.2 * t),
                Bar("2 × tuned", lambda h, a, t: h >= 2 * t),
            ),
            ("mb_cpu_s", "MB/CPU-s", None, None),
        )
    ),
    *(
        Row(
            "cluster → cluster, 100/s",
            "mirror-latency",
            f"{percentile}_ms",
            f"{percentile} ms",
            _default(2),
            Bar("≤ default", lambda h, a, t: h <= a),
        )
        for percentile in ("p50", "p99")
    ),
    Row("cluster → cluster, 100/s", "mirror-latency", "cpu_pct", "% core"),
    *(
        Row(
            "500 topics × 4 mirrored, idle",
            "mirror-idle",
            key,
            unit,
            _default(1.2),
            Bar("≤ default", lambda h, a, t: h <= a),
        )
        for key, unit in (("cpu_pct", "% core"), ("pss_mb", "MB PSS"))
    ),
    Row("500 topics × 4 mirrored, idle", "mirror-idle", "rss_mb", "MB RSS"),
    Row("100 idle connectors", "idle-100", "cpu_pct", "% core", _at_most(10), _at_most(5)),
    Row(
        "100 idle connectors",
        "idle-100",
        "pss_mb",
        "MB PSS",
        _default(2),
        _default(1.3),
    ),
    Row("100 idle connectors", "idle-100", "rss_mb", "MB RSS"),
    Row(
        "start → first record",
        "start",
        "start_s",
        "s",
        Bar("≤ default + 2", lambda h, a, t: h <= a + 2),
        Bar("< default", lambda h, a, t: h < a),
    ),
    *(
        Row(f"{what}, {workers} worker{'s' if workers > 1 else ''}", f"rebalance-{workers}", key, "s")
        for workers in (1, 3, 5)
        for what, key in (
            ("12 tasks created → RUNNING", "created_s"),
            ("a worker leaves → RUNNING", "left_s"),
            ("a new worker joins → RUNNING", "joined_s"),
        )
        if workers > 1 or key == "created_s"
    ),
    *(
        Row(f"kill -9, delay {delay} s → {what}", measure, key, "s")
        for measure, delay in (("recovery", 0), ("recovery-delay5", 5))
        for what, key in (
            ("rebalance begins", "noticed_s"),
            ("pair RUNNING elsewhere", "running_s"),
            ("in the topic", "produced_s"),
            ("**in the file**", "recovery_s"),
        )
    ),
    *(
        Row(f"GET status, {doing}", f"rest-{doing}", key, unit, bar)
        for doing, limit in (("idle", None), ("loaded", _at_most(100)))
        for key, unit, bar in (
            ("answers_s", "answers/s", None),
            ("p50_ms", "p50 ms", None),
            ("p99_ms", "p99 ms", limit),
            ("cpu_pct", "% core", None),
        )
    ),
    Row("GET status, loaded: the load", "rest-loaded", "load_rec_s", "rec/s"),
    Row("idle distributed worker", "memory-cluster", "pss_mb", "MB PSS"),
    Row("idle distributed worker", "memory-cluster", "rss_mb", "MB RSS"),
    Row("idle distributed worker", "memory-cluster", "cpu_pct", "% core"),
)


def figure(outcomes: Iterable[Outcome], measure: str, side: str, key: str) -> Figure | None:
    """Median and range of one figure on one side; None when no run gave it."""
    values = [o.figures[key] for o in outcomes if (o.measure, o.side) == (measure, side) and key in o.figures]
    return Figure.of(values)


def summarize(outcomes: Sequence[Outcome]) -> list[dict[str, object]]:
    """A JSON-ready entry for each row whose measure ran."""
    ran = {o.measure for o in outcomes}
    return [_entry(row, outcomes) for row in ROWS if row.measure in ran]


def _entry(row: Row, outcomes: Sequence[Outcome]) -> dict[str, object]:
    found = {side: figure(outcomes, row.measure, side, row.key) for side in (DEFAULT, TUNED, HEADRACE)}
    h, a, t = (found[side].median if found[side] else None for side in (HEADRACE, DEFAULT, TUNED))  # type: ignore[union-attr]
    return {
        "what": row.what,
        "measure": row.measure,
        "key": row.key,
        "unit": row.unit,
        "sides": {side: asdict(f) if f else None for side, f in found.items()},
        "to_default": h / a if h is not None and a else None,
        "to_tuned": h / t if h is not None and t else None,
        "bar": _judged(row.bar, h, a, t),
        "stretch": _judged(row.stretch, h, a, t),
    }


def _judged(bar: Bar | None, h: float | None, a: float | None, t: float | None) -> dict[str, object] | None:
    if bar is None:
        return None
    known = h is not None and (bar.alone or (a is not None and t is not None))
    return {"text": bar.text, "holds": bar.holds(h, a, t) if known else None}  # type: ignore[arg-type]


def markdown(entries: Iterable[Mapping[str, object]]) -> str:
    """The table, one line per entry."""
    heads = ["what", "unit", DEFAULT, TUNED, HEADRACE, "/ default", "/ tuned", "bar", "stretch"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for e in entries:
        sides: Mapping[str, Mapping[str, float] | None] = e["sides"]  # type: ignore[assignment]
        cells = [str(e["what"]), str(e["unit"]), *(_shown(sides[side]) for side in (DEFAULT, TUNED, HEADRACE))]
        cells += [_ratio(e["to_default"]), _ratio(e["to_tuned"]), _verdict(e["bar"]), _verdict(e["stretch"])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _shown(found: Mapping[str, float] | None) -> str:
    if found is None:
        return "–"
    median = _number(found["median"])
    return median if found["runs"] == 1 else f"{median} ({_number(found['low'])}–{_number(found['high'])})"


def _number(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:.0f}k"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _ratio(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else "–"


def _verdict(judged: object) -> str:
    if not isinstance(judged, dict):
        return ""
    return f"{judged['text']}: {({True: 'holds', False: '**MISSES**', None: 'not known'})[judged['holds']]}"
