"""`python -m tests.bench [MEASURE …]`: run the measures on every side in turn, print the table."""

import argparse
import json
import multiprocessing
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import psutil

from headrace.plugins.interop.jvm.jars import fetch
from headrace.worker.embedded.kafka_broker import Broker
from tests.bench import (
    avro,
    curve,
    datagen,
    debezium,
    elasticsearch,
    files,
    iceberg,
    java_plugins,
    jdbc,
    jdbc_source,
    json_schema,
    latency,
    mirror,
    protobuf,
    rebalance,
    records,
    report,
    resident,
    rest,
    structs,
    throughput,
)
from tests.bench.context import FULL, QUICK, Bench, Measure, Size
from tests.bench.processes import Failed, die_on_sigterm, listening_pid
from tests.bench.report import Outcome
from tests.bench.sides import APACHE_CONNECT, SAME_FOR_ALL, Side, sides
from tests.bench.topics import Topics

MEASURES: dict[str, Measure] = {
    "throughput-source": throughput.source_throughput,
    "throughput-sink": throughput.sink_throughput,
    "source-no-schema": partial(throughput.source_throughput, with_schema=False),
    "source-exactly-once": throughput.source_exactly_once,
    "structs": structs.as_they_are,
    "structs-transforms": structs.with_transforms,
    "structs-bad": structs.with_bad_ones,
    "jdbc-upsert": jdbc.upsert,
    "jdbc-insert": jdbc.insert,
    "java-source": java_plugins.source,
    "java-sink": java_plugins.sink,
    "java-jdbc-sink": java_plugins.jdbc_sink,
    "java-debezium": debezium.snapshot,
    "iceberg-json": iceberg.append_json,
    "iceberg-avro": iceberg.append_avro,
    "latency-1": partial(latency.sinks, count=1, rate=50),
    "latency-20x5": partial(latency.sinks, count=20, rate=5),
    "latency-20x50": partial(latency.sinks, count=20, rate=50),
    "latency-100x5": partial(latency.sinks, count=100, rate=5),
    "latency-source": latency.source,
    "trickle-200": partial(latency.pairs, count=100, every_s=3),
    "pairs-20x50": partial(latency.pairs, count=20, every_s=1 / 50),
    "mirror": partial(mirror.throughput, record=170),
    "mirror-1k": partial(mirror.throughput, record=1_000),
    "mirror-10k": partial(mirror.throughput, record=10_000),
    "mirror-latency": mirror.latency,
    "mirror-idle": mirror.idle,
    "idle-100": resident.idle,
    "start": resident.start,
}
# Of distributed workers; nothing of what tuning is for, so there is no tuned side.
CLUSTER_MEASURES: dict[str, Measure] = {
    "rebalance-1": partial(rebalance.rebalance, workers=1),
    "rebalance-3": partial(rebalance.rebalance, workers=3),
    "rebalance-5": partial(rebalance.rebalance, workers=5),
    "recovery": partial(rebalance.recovery, delay_ms=0),
    "recovery-delay5": partial(rebalance.recovery, delay_ms=5000),
    "rest-idle": rest.idle,
    "rest-loaded": rest.loaded,
    "memory-cluster": resident.cluster_worker,
}
# Not beside Apache Connect: beside Spark's own work in the same session, or what Apache's sinks have nothing like.
ALONE: dict[str, Measure] = {
    "avro": avro.decode,
    "protobuf": protobuf.decode,
    "json-schema": json_schema.decode,
    "jdbc-killed": jdbc.killed,
    "jdbc-bulk": jdbc_source.bulk,
    "java-memory": java_plugins.memory,
    "datagen-json": datagen.json_topic,
    "datagen-json-2": partial(datagen.json_topic, tasks=2),
    "datagen-avro": datagen.avro_topic,
    "records-source": records.source,
    "records-sink": records.sink,
    "records-latency": records.latency,
    "elasticsearch-sink": elasticsearch.sink,
    "files-avro": partial(files.avro_topic, on_hdfs=False),
    "files-avro-hdfs": partial(files.avro_topic, on_hdfs=True),
    "files-avro-cluster-1": partial(files.on_cluster, executors=1),
    "files-avro-cluster-2": partial(files.on_cluster, executors=2),
    "files-avro-cluster-4": partial(files.on_cluster, executors=4),
    "files-json": partial(files.json_topic, partitions=1),
    "files-json-4": partial(files.json_topic, partitions=4),
    "files-memory": files.memory,
    "files-rotation": partial(files.rotation, on_hdfs=False),
    "files-rotation-hdfs": partial(files.rotation, on_hdfs=True),
    "iceberg-upsert": iceberg.upsert,
    "iceberg-latency": iceberg.latency,
    "iceberg-memory": iceberg.memory,
}
ALL = {**MEASURES, **CLUSTER_MEASURES, **ALONE}
KNOWN = {**curve.POINTS, **ALL}  # points of the picture that are no row of the table run for `--plot`, or by name
ATTEMPTS, QUIET_PCT = 3, 25.0  # of a core: beyond it two cores are no longer two
EXIT_OK, EXIT_FAILED_RUNS, EXIT_INTERRUPTED = 0, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 when every run gave its figures (bars that miss are shown, not punished)."""
    parser = _arguments()
    asked = parser.parse_args(arguments)
    if unknown := set(asked.measures) - set(KNOWN):
        parser.error(f"no measure {', '.join(sorted(unknown))}: the measures are {', '.join(KNOWN)}")
    die_on_sigterm()
    chosen = [side for side in sides(fetch("connect")) if side.name in asked.sides]
    size = replace(QUICK if asked.quick else FULL, **({"lines": asked.lines} if asked.lines else {}))
    repeats = asked.repeats or (1 if asked.quick else 3)
    outcomes = [Outcome(**run) for file in asked.add for run in json.loads(file.read_text())["runs"]]
    measures = asked.measures or (curve.missing(outcomes) if asked.plot else list(ALL))
    began, interrupted = time.time(), False
    try:
        if measures:
            with _bench(asked.bootstrap, size) as bench:
                for outcome in _run_all(bench, measures, chosen, repeats, asked.quiet):
                    outcomes.append(outcome)
    except KeyboardInterrupt:
        interrupted = True
        _say("interrupted: what was measured so far follows")
    entries = report.summarize(outcomes)
    conditions = _conditions(size, repeats, outcomes, began)
    print(f"{report.markdown(entries)}\n\n{_footnote(conditions, outcomes)}")
    if asked.json:
        everything = {"conditions": conditions, "rows": entries, "runs": [asdict(o) for o in outcomes]}
        asked.json.write_text(json.dumps(everything, indent=2, ensure_ascii=False) + "\n")
    if asked.plot:
        asked.plot.write_text(curve.svg(outcomes, f"{psutil.cpu_count()} cores, broker beside; python -m tests.bench"))
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILED_RUNS if any(o.failure for o in outcomes) else EXIT_OK


def _arguments() -> argparse.ArgumentParser:
    names = [side.name for side in sides([])]
    parser = argparse.ArgumentParser("python -m tests.bench", description="Headrace beside Apache Connect.")
    parser.add_argument(
        "measures", nargs="*", metavar="MEASURE", help=f"of: {', '.join(KNOWN)} (default: all of the table)"
    )
    parser.add_argument("--sides", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--repeats",
        type=int,
        help="of every measure on every side, alternating (default 3)",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat: a look, not a result")
    parser.add_argument("--lines", type=int, help="how many the throughput file has (default 12,000,000)")
    parser.add_argument("--bootstrap", help="use this broker on this machine instead of an own one")
    parser.add_argument(
        "--quiet",
        type=float,
        default=QUIET_PCT,
        metavar="PCT",
        help="run again when others use more of a core than this",
    )
    parser.add_argument("--json", type=Path, help="write figures, conditions and single runs to this file")
    parser.add_argument("--add", type=Path, nargs="+", default=[], metavar="JSON", help="runs measured before, as well")
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="SVG",
        help="draw many small sinks; where no measure is named, those of the picture that --add has not are run",
    )
    return parser


@contextmanager
def _bench(bootstrap: str | None, size: Size) -> Iterator[Bench]:
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        if bootstrap is None:
            broker = stack.enter_context(Broker(directory / "kafka"))
            bootstrap, pid = broker.bootstrap_servers, int(broker.process.pid)
        else:
            pid = listening_pid(int(bootstrap.rpartition(":")[2]))
        bench = Bench(directory, Topics(bootstrap), [pid] if pid else [], size)
        stack.callback(bench.close)
        yield bench


def _run_all(
    bench: Bench, measures: Sequence[str], chosen: Sequence[Side], repeats: int, quiet_pct: float
) -> Iterator[Outcome]:
    for measure in measures:
        taking_part = [side for side in chosen if _takes_part(side, measure)]
        for repeat in range(1, repeats + 1):
            for side in taking_part:  # A B C, A B C, …: what the machine does meanwhile falls on all alike
                outcome = _undisturbed(bench, measure, side, repeat, quiet_pct)
                shown = ", ".join(f"{key} {value:,.1f}" for key, value in outcome.figures.items())
                _say(f"{measure} {side.name} {repeat}/{repeats}: {outcome.failure or shown}")
                yield outcome


def _takes_part(side: Side, measure: str) -> bool:
    if measure in ALONE:
        return side.name == report.HEADRACE
    return side.name != report.TUNED or measure not in CLUSTER_MEASURES


def _undisturbed(bench: Bench, measure: str, side: Side, repeat: int, quiet_pct: float) -> Outcome:
    """The run that the machine's other work disturbed least, of at most three; chosen by that work, not by figures."""
    tried: list[Outcome] = []
    for _ in range(ATTEMPTS):
        tried.append(_run(bench, measure, side, repeat))
        others = tried[-1].figures.get("others_cpu_pct", 0.0)
        if others <= quiet_pct:
            return tried[-1]
        _say(f"{measure} {side.name} {repeat}: other processes took {others:.0f} % of a core")
    return min(tried, key=lambda outcome: outcome.figures.get("others_cpu_pct", 0.0))


def _run(bench: Bench, measure: str, side: Side, repeat: int) -> Outcome:
    try:
        return Outcome(measure, side.name, repeat, KNOWN[measure](bench, side))
    except Exception as failure:  # one run without figures must not cost the others theirs
        reason = str(failure) if isinstance(failure, Failed) else f"{type(failure).__name__}: {failure}"
        return Outcome(measure, side.name, repeat, {}, reason)


def _conditions(size: Size, repeats: int, outcomes: Sequence[Outcome], began: float) -> dict[str, object]:
    others = [o.figures["others_cpu_pct"] for o in outcomes if "others_cpu_pct" in o.figures]
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "took_s": round(time.time() - began),
        "cores": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "apache_connect": APACHE_CONNECT,
        "same_for_all": SAME_FOR_ALL,
        "size": asdict(size),
        "repeats": repeats,
        "others_cpu_pct": [round(min(others)), round(max(others))] if others else None,
    }


def _footnote(conditions: dict[str, object], outcomes: Sequence[Outcome]) -> str:
    notes = [
        f"{conditions['at']}, {conditions['cores']} cores, {conditions['memory_gb']} GB, {conditions['system']}; "
        f"Apache Connect {APACHE_CONNECT}; broker on the same machine, not counted; {conditions['repeats']} repeats in "
        "turn, median (lowest–highest); every standalone run's output was checked: complete, in order, without "
        "duplicates; after a kill: complete.",
        f"Other processes of the machine used {conditions['others_cpu_pct']} % of a core (lowest, highest run).",
    ]
    notes += [f"FAILED {o.measure} {o.side} {o.repeat}: {o.failure}" for o in outcomes if o.failure]
    return "\n".join(notes)


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    sys.exit(main())
