"""One run: a broker, the workers, the connectors, the disturbances, and what is found at the end."""

from __future__ import annotations

import heapq
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.engine.driver_conf import DEFAULTS
from tests.bench.topics import Topics
from tests.held_ports import held_port
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.worker_process import eventually
from tests.soak.pipes import EVERY_S, Mix, TablePipe
from tests.soak.sampling import Arrivals, Watch, counted
from tests.soak.shaking import READY_S, Shaker, times

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
SMALL_SEGMENTS: Final = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.3"}
"""Of the internal topics: Kafka compacts only what is no longer written to, by default after a gigabyte or a week."""
BROKER: Final = {"log.cleaner.backoff.ms": "5000", "offsets.topic.segment.bytes": "1048576"}
PUT_S: Final = 120.0
"""Longer than a worker waits for its group."""
_AT_ONCE: Final = 4
"""Connectors that are created at the same time."""


@dataclass(frozen=True)
class Scale:
    """The size of a run, its length and its disturbances."""

    connectors: int = 500
    workers: int = 3
    minutes: float = 1440.0
    kill_min: float = 60.0
    """A worker is killed so often; 0: never."""
    roll_min: float = 60.0
    """All workers are restarted one after the other so often; 0: never."""
    settle_s: float = 600.0
    """The time within which the cluster has to settle."""
    delay_s: float = 30.0
    """The workers' `scheduled.rebalance.max.delay.ms`, in seconds."""
    sample_s: float = 10.0
    free_gb: float = 1.5
    """The run ends if the machine has less memory left."""
    exactly_once: bool = False
    """Sources send in transactions."""


def settings(scale: Scale) -> dict[str, str]:
    """Make the workers' settings: all defaults, but for the delay and the size of segments."""
    found = {
        JAVA_OPTIONS: DEFAULTS[JAVA_OPTIONS],
        "offset.flush.interval.ms": "60000",
        "scheduled.rebalance.max.delay.ms": str(int(1000 * scale.delay_s)),
        "session.timeout.ms": "10000",
        "heartbeat.interval.ms": "3000",
        "consumer.session.timeout.ms": "45000",
        "exactly.once.source.support": "enabled" if scale.exactly_once else "disabled",
    }
    return found | {
        f"{kind}.storage.{key}": value
        for kind in ("config", "offset", "status")
        for key, value in SMALL_SEGMENTS.items()
    }


class Sender(threading.Thread):
    """Sends the lines of all pipes, each in its time."""

    def __init__(self, mix: Mix) -> None:
        super().__init__(daemon=True, name="sender")
        self._mix = mix
        self._over = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        now, pipes = time.monotonic(), self._mix.pipes
        due = [(now + EVERY_S[pipe.kind] * n / len(pipes), n) for n, pipe in enumerate(pipes)]
        heapq.heapify(due)
        try:
            while not self._over.wait(max(0.0, due[0][0] - time.monotonic())):
                at, n = due[0]
                pipes[n].send(time.monotonic())
                heapq.heapreplace(due, (max(at + EVERY_S[pipes[n].kind], time.monotonic() - 60), n))
        except BaseException as error:  # the run ends by it
            self.failure = error
            raise

    def end(self) -> None:
        """Send no more."""
        self._over.set()
        self.join()
        for pipe in self._mix.pipes:
            pipe.close()


class Run:
    """The cluster of a run, in a folder of its own."""

    def __init__(self, folder: Path, scale: Scale) -> None:
        self.folder, self.scale = folder, scale
        self.samples = folder / "samples.jsonl"
        self.figures: dict[str, Any] = {"scale": asdict(scale), "events": [], "faults": []}

    def go(self) -> None:
        """Run all of it; `samples.jsonl` and `figures.json` in the folder have what was measured."""
        broker = Broker(self.folder / "kafka", held_port(), settings=BROKER)
        broker.start(READY_S)
        try:
            self._with_broker(broker)
        except BaseException as error:
            self.figures["faults"].append(f"the run broke off: {error!r}"[:2000])
            raise
        finally:
            broker.stop()
            (self.folder / "figures.json").write_text(json.dumps(self.figures, indent=1))

    def _with_broker(self, broker: Broker) -> None:
        mix = Mix.of(self.folder / "pipes", broker.bootstrap_servers, self.scale.connectors)
        topics = Topics(broker.bootstrap_servers)
        topics.create(*mix.topics)
        cluster = new_cluster()
        workers = [
            ClusterWorker(self.folder / f"w{n}", broker.bootstrap_servers, cluster, settings(self.scale))
            for n in range(self.scale.workers)
        ]
        with ExitStack() as stack:
            for worker in workers:
                stack.enter_context(worker)
            for worker in workers:
                worker.wait_ready(READY_S)
            items = self._create(workers, mix)
            arrivals = Arrivals(mix)
            stack.callback(arrivals.close)
            watch = Watch(workers, arrivals, psutil.Process(broker.process.pid), broker.data_dir / "data", self.samples)
            watch.every_s = self.scale.sample_s
            shaker = Shaker(workers, watch, items, self.scale.settle_s)
            self.figures["faults"] = shaker.faults
            stack.callback(lambda: self.figures.update(events=[asdict(one) for one in shaker.events]))
            with sending(mix) as sender, watching(watch):
                self._shake(shaker, watch, sender)
                sender.end()
                self._finish(shaker, mix, topics)
            for n, worker in enumerate(workers):
                if (code := worker.stop(READY_S)) != 0:
                    shaker.faults.append(f"w{n} ended with {code} at the end")
            self.figures["log"] = [logged(worker) for worker in workers]

    def _create(self, workers: Sequence[ClusterWorker], mix: Mix) -> int:
        """Create all connectors, and return how many connectors and tasks are to run."""
        configs, began = mix.connectors(), time.monotonic()
        print(f"{len(configs)} connectors ({mix.counts()}, a mirror) on {len(workers)} workers", flush=True)

        def create(name: str, number: int) -> None:
            worker, path = workers[number % len(workers)], f"/connectors/{name}/config"

            def created() -> bool:
                answer = worker.http.put(path, json=configs[name], timeout=PUT_S)
                if answer.status_code == httpx.codes.CONFLICT:  # the group rebalances, as Connect says it
                    return False
                assert answer.status_code < httpx.codes.BAD_REQUEST, answer.text
                return True

            eventually(created, READY_S, lambda: f"{name}: 409", 1.0)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(create, configs, range(len(configs))))
        created_s = time.monotonic() - began
        items = 2 * len(configs)
        states: Counter[str] = Counter()

        def running() -> bool:
            nonlocal states
            states = counted(workers[0].get("/connectors?expand=status"))
            return states == {"RUNNING": items}

        eventually(running, self.scale.settle_s, lambda: states, 1.0)
        running_s = time.monotonic() - began
        print(f"created in {created_s:.0f} s, all RUNNING after {running_s:.0f} s", flush=True)
        self.figures |= {"mix": mix.counts(), "connectors": len(configs), "items": items}
        self.figures |= {"created_s": round(created_s, 1), "running_s": round(running_s, 1)}
        return items

    def _shake(self, shaker: Shaker, watch: Watch, sender: Sender) -> None:
        """Do all that is planned, each at its time or once what came before has settled."""
        shaker.start()
        plan = times(self.scale.minutes, self.scale.kill_min, self.scale.roll_min)
        for minute, what in [*plan, (self.scale.minutes, "")]:
            while time.monotonic() < watch.began + 60 * minute:
                time.sleep(min(5.0, max(0.0, watch.began + 60 * minute - time.monotonic())))
                for failure in (watch.failure, sender.failure):
                    if failure:
                        raise failure
                left_gb = psutil.virtual_memory().available / 1e9
                if left_gb < self.scale.free_gb:
                    raise MemoryError(f"the machine has {left_gb:.1f} GB left: the run ends before it suffers")
            if what:
                getattr(shaker, what)()

    def _finish(self, shaker: Shaker, mix: Mix, topics: Topics) -> None:
        """Wait until all has arrived, and note what came of every line."""
        arrivals = shaker.watch.arrivals
        try:
            eventually(lambda: arrivals.late()[1] == 0, self.scale.settle_s, arrivals.late, 1.0)
            eventually(shaker.settled, 60, shaker.watch.states, 1.0)
        except AssertionError as error:
            shaker.faults.append(f"the end: {error}")
        self.figures["sent"] = sum(len(pipe.stream.sent_at) for pipe in mix.pipes)
        self.figures["arrived"] = sum(end.arrived for end in mix.ends)
        self.figures["lost"] = {end.name: list(end.waiting())[:5] for end in mix.ends if end.waiting()}
        self.figures["odd"] = {end.name: str(end.odd[:3]) for end in mix.ends if end.odd}
        self.figures["twice"] = {
            kind: sum(end.twice for pipe in mix.pipes if pipe.kind == kind for end in pipe.ends) for kind in EVERY_S
        }
        self.figures["not_once"] = {}
        for pipe in mix.pipes:
            if isinstance(pipe, TablePipe) and not self.scale.exactly_once:
                rows, records = pipe.end.arrived + pipe.end.twice, topics.end(pipe.topic)
                if rows != records:
                    self.figures["not_once"][pipe.name] = f"{rows} rows of {records} records"
            elif self.scale.exactly_once and pipe.kind == "table" and pipe.ends[0].twice:
                self.figures["not_once"][pipe.name] = f"{pipe.ends[0].twice} rows twice"


@contextmanager
def sending(mix: Mix) -> Iterator[Sender]:
    """Lines come until the end."""
    sender = Sender(mix)
    sender.start()
    try:
        yield sender
    finally:
        sender.end()


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Samples are taken until the end."""
    watch.start()
    try:
        yield
    finally:
        watch.close()


def logged(worker: ClusterWorker) -> dict[str, Any]:
    """Count the lines of each level in a worker's log, and show the commonest of warnings and errors."""
    levels, texts = Counter[str](), Counter[str]()
    with worker.log_file.open(errors="replace") as lines:
        for line in lines:
            parts = line.split(" ", 3)
            if line.startswith("[") and len(parts) > 3:
                levels[parts[2]] += 1
                if parts[2] in ("ERROR", "WARN"):
                    texts["".join("#" if c.isdigit() else c for c in f"{parts[2]} {parts[3][:160]}".strip())] += 1
    return {"levels": dict(levels), "commonest": dict(texts.most_common(20))}
