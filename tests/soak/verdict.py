"""The figures of a run as a table, each with its bound."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.soak.growth import growth

Sample = Mapping[str, Any]

MOST_GROWTH: Final = {"mb": 0.05, "threads": 0.02, "handles": 0.02}
"""The growth that each may have in the second half of the run, as a share of its mean."""
MOST_HOURS: Final = 2.0
"""Half of a longer run counts as so long."""
PARTS: Final = {"worker": "worker", "spark": "Spark's driver"}
REST_P99_MS: Final = 2_000.0
REST_MOST_MS: Final = 10_000.0
LATE_S: Final = 30.0
"""The age of the oldest record that has not arrived, while nothing disturbs the cluster."""
TOPICS_MB: Final = 1.5
"""The most that an internal topic may have in the last quarter, times the most of the one before the middle."""
TOPICS_FREE_MB: Final = 30.0
"""A topic below needs no compaction: that many segments are still written to."""
UNITS: Final = {"mb": "MB", "threads": "threads", "handles": "descriptors"}


class Row(NamedTuple):
    """A figure, and the bound that it has to hold."""

    what: str
    found: str
    bound: str = ""
    holds: bool = True


def rows(figures: Mapping[str, Any], samples: Sequence[Sample]) -> list[Row]:
    """All figures of a run."""
    return [
        *_records(figures),
        *_settling(figures),
        *_at_rest(samples),
        *_rest(samples),
        *_held(samples),
        *_internal(samples),
        *_machine(samples),
    ]


def _records(figures: Mapping[str, Any]) -> Iterator[Row]:
    yield Row("what went wrong on the way", _some(figures["faults"]), "nothing", not figures["faults"])
    if "not_once" not in figures:  # the run broke off
        return
    counts = figures["twice"]
    yield Row("lines sent, at all ends arrived", f"{figures['sent']:,}, {figures['arrived']:,}")
    yield Row("ends with lines that are lost", _some(figures["lost"]), "none", not figures["lost"])
    yield Row("ends with lines that are torn or of nobody", _some(figures["odd"]), "none", not figures["odd"])
    yield Row(
        "tables with a record more or less than once", _some(figures["not_once"]), "none", not figures["not_once"]
    )
    yield Row("lines that came again", ", ".join(f"{kind} {count:,}" for kind, count in counts.items()))
    yield Row(
        f"{figures['connectors']} connectors created, all RUNNING",
        f"{figures['created_s']:.0f} s, {figures['running_s']:.0f} s",
    )


def _some(found: Mapping[str, Any] | Sequence[str]) -> str:
    texts = [f"{key}: {value}" for key, value in found.items()] if isinstance(found, Mapping) else list(found)
    return f"{len(texts)}: {'; '.join(text[:300] for text in texts[:3])}" if texts else "none"


def _settling(figures: Mapping[str, Any]) -> Iterator[Row]:
    most = figures["scale"]["settle_s"]
    disturbed = {
        "start": "all RUNNING → no line late",
        "kill": "`kill -9` → all RUNNING, no line late",
        "restart": "restart → the same",
    }
    for what, name in disturbed.items():
        took = [event["settled_s"] for event in figures["events"] if event["what"].startswith(what)]
        if took:
            found = f"{len(took)} times, median {statistics.median(took):.0f} s, worst {max(took):.0f} s"
            yield Row(name, found, f"{most:.0f} s", max(took) <= most)


def _at_rest(samples: Sequence[Sample]) -> Iterator[Row]:
    """Tell how late records were: while nothing was done to the cluster, and at worst."""
    calm = [one["late_s"] for one in samples if not one["doing"]]
    if calm:
        found = f"median {statistics.median(calm):.1f} s, worst {max(calm):.1f} s"
        yield Row("oldest line under way, at rest", found, f"{LATE_S:.0f} s", max(calm) <= LATE_S)
        odd = sum(set(one["states"]) != {"RUNNING"} for one in samples if not one["doing"])
        yield Row("samples at rest with other states than RUNNING", f"{odd} of {len(calm)}", "0", odd == 0)
    yield Row("oldest line under way, at all times", f"worst {max(one['late_s'] for one in samples):.0f} s")


def _rest(samples: Sequence[Sample]) -> Iterator[Row]:
    """Tell how soon workers answered: at rest by the 99th percentile, and at worst."""
    name = "GET /connectors?expand=status"
    p50, p99, _ = _percentiles(one for one in samples if not one["doing"])
    bound = f"p99 {REST_P99_MS:.0f} ms"
    yield Row(f"{name}, at rest", f"median {p50:.0f} ms, p99 {p99:.0f} ms", bound, p99 <= REST_P99_MS)
    most = _percentiles(samples)[-1]
    yield Row(f"{name}, at all times", f"worst {most:.0f} ms", f"{REST_MOST_MS:.0f} ms", most <= REST_MOST_MS)


def _percentiles(samples: Iterable[Sample]) -> tuple[float, float, float]:
    """Tell the median, the 99th percentile and the most of all answers' milliseconds; 0 without any."""
    took = sorted(ms for one in samples for ms in one["rest_ms"].values()) or [0.0]
    return took[len(took) // 2], took[int(len(took) * 0.99)], took[-1]


def _held(samples: Sequence[Sample]) -> Iterator[Row]:
    hours = min(MOST_HOURS, (samples[-1]["at_s"] - samples[0]["at_s"]) / 7200)
    for worker in samples[0]["workers"]:
        for part, name in PARTS.items():
            for key, unit in UNITS.items():
                values = [one["workers"][worker][part][key] for one in samples if one["workers"][worker][part][key]]
                if not values:  # it never ran
                    continue
                found = f"median {statistics.median(values):.0f}, most {max(values):.0f}, last {values[-1]:.0f}"
                grown = growth(samples, worker, part, key)
                if grown is not None:
                    found += f"; {grown.an_hour:+.1f} an hour (± {2 * grown.error:.1f})"
                holds = grown is None or grown.sure(hours) <= MOST_GROWTH[key]
                yield Row(f"{worker}, {name}: {unit}", found, f"+{MOST_GROWTH[key]:.0%} in {hours:.1f} hours", holds)


def _internal(samples: Sequence[Sample]) -> Iterator[Row]:
    quarter = max(1, len(samples) // 4)
    for topic in samples[0]["topics_mb"]:
        sizes = [one["topics_mb"][topic] for one in samples]
        former, last = max(sizes[quarter : 2 * quarter] or sizes), max(sizes[-quarter:])
        name = "Kafka's own of groups" if topic == "groups" else f"internal topic of {topic}"
        holds = last <= max(TOPICS_FREE_MB, TOPICS_MB * former)
        bound = f"{TOPICS_MB:g} times, from {TOPICS_FREE_MB:.0f} MB on"
        yield Row(f"{name}: second quarter, last quarter", f"{former:.2f} MB, {last:.2f} MB", bound, holds)


def _machine(samples: Sequence[Sample]) -> Iterator[Row]:
    for worker in samples[0]["workers"]:
        share = statistics.median(_shares(samples, lambda one, w=worker: _cpu_s(one["workers"][w])))  # type: ignore[misc]
        total = [sum(one["workers"][worker][part]["mb"] for part in ("worker", "spark", "others")) for one in samples]
        yield Row(
            f"{worker} with all its processes",
            f"{share:.0f} % of a core, {statistics.median(total):.0f} MB, most {max(total):.0f} MB",
        )
    broker = statistics.median(_shares(samples, lambda one: one["broker"]["cpu_s"]))
    yield Row("broker", f"{broker:.0f} % of a core, {samples[-1]['broker']['mb']:.0f} MB")
    yield Row("memory that the machine had left, least", f"{min(one['available_mb'] for one in samples):,} MB")


def _cpu_s(worker: Mapping[str, Any]) -> float:
    return sum(float(worker[part]["cpu_s"]) for part in ("worker", "spark", "others"))


def _shares(samples: Sequence[Sample], used_s: Callable[[Sample], float]) -> list[float]:
    """The share of a core between each two samples in which nothing ended."""
    pairs = [(a, b, used_s(b) - used_s(a)) for a, b in itertools.pairwise(samples)]
    return [100 * used / (b["at_s"] - a["at_s"]) for a, b, used in pairs if used >= 0] or [0.0]


def markdown(found: Sequence[Row]) -> str:
    """Make the table."""
    lines = ["| what | found | bound | holds |", "|---|---|---|---|"]
    for row in found:
        verdict = ("yes" if row.holds else "**no**") if row.bound else ""
        lines.append(
            "| "
            + " | ".join(
                text.replace("|", "/").replace("\n", " ") for text in (row.what, row.found, row.bound, verdict)
            )
            + " |"
        )
    return "\n".join(lines)
