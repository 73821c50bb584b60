"""`headrace quickstart`: from nothing to a flowing pipe, with a broker, a worker and two file connectors of its own.

The worker is the same process that production runs, `connect-standalone` with properties files; this module only makes
the files. Everything is in one folder that is removed at the end, unless it is to be kept.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from headrace.plugins.interop.jvm.jars import Unavailable, fetch
from headrace.worker.cli.own_worker import OwnWorker, PipeFailed, WrongUse, home
from headrace.worker.cli.pipe_watch import Delays, LineCount, PipeWatch
from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.machine import processes

TOPIC: Final = "quickstart"
SOURCE: Final = "quickstart-source"
SINK: Final = "quickstart-sink"
DEFAULT_REST_PORT: Final = 8083

_LOOK_S: Final = 0.02
_SHOW_S: Final = 0.5
_SHOW_PLAIN_S: Final = 5.0
_RATE_OVER_S: Final = 5.0
_REST_START_S: Final = 60.0

# At INFO an idle broker is silent; this logger writes about a dozen lines a second, whatever the broker does.
_TALKATIVE: Final = {"org.apache.kafka.controller.QuorumController": "debug"}


@dataclass(frozen=True, slots=True)
class Options:
    """The command line; `rest_port` is the first port tried."""

    file: Path | None = None
    once: bool = False
    as_json: bool = False
    keep: Path | None = None
    rest_port: int = DEFAULT_REST_PORT


def run(options: Options) -> int:
    """Run until Ctrl-C, or with `once` until every complete line has arrived; returns the exit code."""
    console = Console(stderr=options.as_json, highlight=False)
    pipe: Pipe | None = None
    try:
        check(options)
        with home(options.keep, "quickstart") as folder, processes.interrupts(lambda: _discard(options, folder)):
            pipe = Pipe(options, folder, console)
            pipe.run()
    except processes.Interrupted as stop:
        if options.once:
            console.print("interrupted before every line had arrived")
            return 128 + stop.signum
    except (WrongUse, PipeFailed, Unavailable) as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 2 if isinstance(error, WrongUse) else 3 if isinstance(error, Unavailable) else 1
    if pipe is not None:
        pipe.summarize()
    return 0


def check(options: Options) -> None:
    """Errors: WrongUse if the file cannot be read or the folder to keep is already used."""
    file, keep = options.file, options.keep
    if file is not None and file.is_dir():
        raise WrongUse(f"{file} is a folder; name a file of lines")
    if file is not None and options.once and not file.exists():
        raise WrongUse(f"{file} does not exist, so --once has nothing to wait for; name an existing file")
    if file is not None and file.exists():
        try:
            open(file, "rb").close()
        except OSError as error:
            raise WrongUse(f"{file} cannot be read ({error.strerror}); check its permissions") from error
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise WrongUse(f"--keep {keep} is not an empty folder; name a new one, each quickstart needs its own")


def _discard(options: Options, folder: Path) -> None:
    if options.keep is None:
        shutil.rmtree(folder, ignore_errors=True)


def properties(
    folder: Path, bootstrap_servers: str, rest_port: int, source: Path, sink: Path
) -> dict[str, dict[str, str]]:
    """The settings of the worker and both connectors, by file name, in the order of the command line."""
    return {
        "worker.properties": {
            **OwnWorker.properties(folder, bootstrap_servers, rest_port),
            "offset.flush.interval.ms": "5000",
        },
        "source.properties": {
            "name": SOURCE,
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(source),
            "topic": TOPIC,
        },
        "sink.properties": {
            "name": SINK,
            "connector.class": "FileStreamSink",
            "tasks.max": "1",
            "file": str(sink),
            "topics": TOPIC,
        },
    }


class Pipe:
    """Broker, worker and the loop that looks at both ends of the pipe."""

    def __init__(self, options: Options, folder: Path, console: Console) -> None:
        self._options = options
        self._folder = folder
        self._console = console
        self._broker = Broker(folder / "kafka", loggers={} if options.file else _TALKATIVE)
        self._source = LineCount(options.file.absolute() if options.file else self._broker.log_file)
        self._sink = LineCount(folder / "sink.txt")
        self._rates: deque[tuple[float, int]] = deque()
        self._started_s: float | None = None
        self._ended_s = 0.0

    def run(self) -> None:
        """Run until Interrupted, or with `once` until every line that was complete at the start is in the sink file."""
        fetch("spark")
        self._console.print("starting Kafka …")
        with self._broker as broker:
            expected = self._source.update()
            port = processes.free_port(self._options.rest_port)
            settings = properties(self._folder, broker.bootstrap_servers, port, self._source.path, self._sink.path)
            self._started_s = self._ended_s = time.monotonic()
            with OwnWorker(self._folder, settings) as worker:
                watch = PipeWatch(f"http://127.0.0.1:{port}", broker.bootstrap_servers, TOPIC, (SOURCE, SINK))
                watch.start()
                try:
                    self._introduce(worker, watch, port)
                    self._look(worker, watch, expected)
                finally:
                    watch.close()

    def summarize(self) -> None:
        """Print the totals: one JSON object on stdout, or a sentence. Seconds count from the worker's start."""
        seconds = self._ended_s - (self._started_s or self._ended_s)
        kept = self._options.keep is not None
        summary = {
            "records": self._sink.lines,
            "seconds": round(seconds, 3),
            "source": str(self._source.path),
            "topic": TOPIC,
            "sink": str(self._sink.path) if kept else None,
        }
        if self._options.as_json:
            print(json.dumps(summary), flush=True)
            return
        where = f"all of it is kept in {self._folder}" if kept else "topic and file are removed (--keep DIR keeps them)"
        self._console.print(
            f"{self._sink.lines:,} records went from {self._source.path} through topic {TOPIC} into a file within "
            f"{seconds:.1f} s of the worker's start; {where}",
            soft_wrap=True,
        )

    def _introduce(self, worker: OwnWorker, watch: PipeWatch, port: int) -> None:
        self._console.print("starting the worker …")
        deadline = time.monotonic() + _REST_START_S
        while not watch.answers.wait(0.1):
            worker.check_alive()
            if time.monotonic() > deadline:
                raise PipeFailed(f"REST did not answer within {_REST_START_S:.0f} s; the log:\n{worker.log_end()}")
        rows = {
            "REST": f"http://127.0.0.1:{port}  (try: curl http://127.0.0.1:{port}/connectors/{SOURCE}/status)",
            "Kafka": self._broker.bootstrap_servers,
            "pipe": f"{self._source.path} → topic {TOPIC} → {self._sink.path}",
            "logs": f"{worker.log_file}, {self._broker.log_file}",
        }
        for name, value in rows.items():
            self._console.print(f"{name:<6} {value}", soft_wrap=True)
        self._console.print("Ctrl-C ends all of it" if not self._options.once else "waiting for every line to arrive")

    def _look(self, worker: OwnWorker, watch: PipeWatch, expected: int) -> None:
        delays = Delays(backlog_lines=expected)
        terminal = self._console.is_terminal
        shown_s = 0.0
        with Live(console=self._console, auto_refresh=False) if terminal else contextlib.nullcontext() as live:
            while True:
                now_s = time.monotonic()
                source = 0 if self._options.once else self._source.update()
                before, written = self._sink.lines, self._sink.update()
                if written > before or not self._options.once:
                    self._ended_s = now_s
                delays.look(source, written, now_s)
                if self._options.once and watch.running and expected <= watch.topic_records <= written:
                    return
                worker.check_alive()
                if watch.failure:
                    raise PipeFailed(f"{watch.failure}\nThe end of the worker's log:\n{worker.log_end()}")
                if now_s - shown_s >= (_SHOW_S if terminal else _SHOW_PLAIN_S):
                    shown_s = now_s
                    line = self._line(watch, written, delays, now_s)
                    if live is not None:
                        live.update(Text(line), refresh=True)
                    else:
                        self._console.print(line, soft_wrap=True)
                time.sleep(_LOOK_S)

    def _line(self, watch: PipeWatch, written: int, delays: Delays, now_s: float) -> str:
        self._rates.append((now_s, written))
        while len(self._rates) > 2 and self._rates[1][0] < now_s - _RATE_OVER_S:
            self._rates.popleft()
        (then_s, then), (now_s, now) = self._rates[0], self._rates[-1]
        rate = (now - then) / (now_s - then_s) if now_s > then_s else 0.0
        delay = delays.recent()
        shown = f"delay median {delay.median_ms:.0f} ms, max {delay.max_ms:.0f} ms" if delay else "delay -"
        return f"read {max(watch.topic_records, written):,}   written {written:,}   {rate:,.0f}/s   {shown}"
