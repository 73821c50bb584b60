"""`headrace run`: one connector out of a file, with a broker and a worker of its own, and its records as they pass.

Decided: if the plugin's file is saved, the worker is started anew and goes on from its offsets, in place of an import
of the module into the running one: every class, thread and module of before is gone. Loses: some seconds a save.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
from confluent_kafka import KafkaException
from rich.console import Console
from rich.text import Text

from headrace.plugins.interop.jvm.jars import Unavailable, fetch
from headrace.worker.cli.own_worker import OwnWorker, PipeFailed, WrongUse, home
from headrace.worker.cli.record_feed import RecordFeed, create_topics
from headrace.worker.cli.record_view import RecordView
from headrace.worker.cli.run_config import check, completed, connector_in, plugin_path, settings_of
from headrace.worker.cli.running_connector import LogLines, RunningConnector
from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.machine import processes

_LOOK_S: Final = 0.2
_ASK_S: Final = 0.5
_LAST_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    plugin: Path
    config: tuple[str, ...] = ()
    input: Path | None = None
    with_keys: bool = False
    limit: int | None = None


def run(options: Options) -> int:
    """Run until Ctrl-C, the limit, or the end of a sink's input; returns the exit code."""
    say = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    try:
        with home(None, "run") as folder, processes.interrupts(lambda: shutil.rmtree(folder, ignore_errors=True)):
            return PluginRun(options, folder, say).run()
    except processes.Interrupted:
        return 0
    except (WrongUse, PipeFailed, Unavailable) as error:
        say.print(Text(f"headrace: {error}"))
        return 2 if isinstance(error, WrongUse) else 3 if isinstance(error, Unavailable) else 1


class PluginRun:
    """A connector between its plugin's file and the eyes of its author."""

    def __init__(self, options: Options, folder: Path, say: Console) -> None:
        """Find and check the connector. Errors: WrongUse."""
        self._options, self._folder, self._say = options, folder, say
        self._given = settings_of(options.config)
        self._config, self._is_sink = self._found()
        self._check()
        self._log = LogLines(folder / "worker.log")
        self._feed: RecordFeed | None = None
        self._shown = 0
        self._told = ""

    def run(self) -> int:
        """Run the connector, and again each time that its file is saved. Errors: PipeFailed, Unavailable."""
        fetch("spark")
        self._tell("starting Kafka …")
        with Broker(self._folder / "kafka") as broker, contextlib.closing(RecordView(broker.bootstrap_servers)) as view:
            if self._is_sink:
                self._begin_to_feed(broker.bootstrap_servers)
            while True:
                stamp = self._stamp()
                with self._running(broker.bootstrap_servers) as running:
                    code = self._show(view, running, stamp)
                if code is not None:
                    return code

    def _found(self) -> tuple[dict[str, str], bool]:
        connector = connector_in(self._options.plugin, self._given.get("connector.class"))
        return completed(connector, self._given), connector.kind == "sink"

    def _check(self) -> None:
        given, name = self._options, self._config["connector.class"]
        if given.input is not None and not given.input.is_file():
            raise WrongUse(f"--input {given.input} is no file")
        if not self._is_sink and (given.input or given.with_keys):
            raise WrongUse(f"{name} is a source; --input and --keys are for sinks")
        if self._is_sink and "topics" not in self._config:
            raise WrongUse(f"{name}: set topics in place of topics.regex, for the first of them is fed")
        check(given.plugin, self._config)

    def _begin_to_feed(self, bootstrap_servers: str) -> None:
        topics = self._topics()
        create_topics(bootstrap_servers, topics)
        topic = topics[0]
        self._feed = RecordFeed(bootstrap_servers, topic, self._options.input, self._options.with_keys, self._tell)
        self._tell(f"each line of {self._options.input or 'standard input'} becomes a record of topic {topic}")
        self._feed.start()

    def _topics(self) -> list[str]:
        """Return the topics of a sink."""
        return [one.strip() for one in self._config["topics"].split(",") if one.strip()]

    @contextlib.contextmanager
    def _running(self, bootstrap_servers: str) -> Iterator[RunningConnector]:
        """Yield the connector in a worker of its own. Errors: PipeFailed."""
        self._tell("starting the worker …")
        self._told = ""
        port = processes.free_port()
        settings = OwnWorker.properties(self._folder, bootstrap_servers, port) | {
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.flush.interval.ms": "1000",
            "plugin.path": ",".join(plugin_path(self._options.plugin)),
        }
        with (
            OwnWorker(self._folder, {"worker.properties": settings}) as worker,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10, trust_env=False) as client,
        ):
            running = RunningConnector(worker, client, self._config)
            running.create()
            yield running
        self._tell_log()

    def _show(self, view: RecordView, running: RunningConnector, stamp: object) -> int | None:
        """Show records until the end, whose exit code it returns, or until another plugin was saved.

        Errors: PipeFailed.
        """
        asked_s = 0.0
        while True:
            if self._has_shown_all(view, _LOOK_S):
                return 0
            self._tell_log()
            if (now := self._stamp()) != stamp:
                stamp = now
                if self._is_usable():
                    return None
            if time.monotonic() - asked_s > _ASK_S:
                asked_s = time.monotonic()
                view.look_for_topics()
                self._tell_state(running, running.look())
                if running.failure and not self._say.is_terminal:
                    return 1
                if self._is_all_written(view, running):
                    view.look_for_topics()
                    self._has_shown_all(view, _LAST_S)  # dead letters among them
                    return 1 if self._feed and self._feed.refused else 0

    def _has_shown_all(self, view: RecordView, wait_s: float) -> bool:
        """Show the records that come within this time; True once as many were shown as are wanted."""
        for line in view.lines(wait_s):
            print(line, flush=True)
            self._shown += 1
            if self._shown == self._options.limit:
                return True
        return False

    def _stamp(self) -> object:
        """The time of the last change to the plugin's files."""
        plugin = self._options.plugin
        files = sorted(plugin.rglob("*.py")) if plugin.is_dir() else [plugin]
        return [(file, file.stat().st_mtime_ns) for file in files if file.exists()]

    def _is_usable(self) -> bool:
        """Find the connector in what was saved; False, and told, if it has none."""
        try:
            self._config, is_sink = self._found()
        except WrongUse as error:
            self._tell(f"{error}\nthe one from before goes on")
            return False
        if is_sink != self._is_sink:
            raise WrongUse(f"{self._options.plugin} was a {'sink' if self._is_sink else 'source'}: run it again")
        self._tell(f"{self._options.plugin} was saved")
        return True

    def _tell_state(self, running: RunningConnector, is_running: bool) -> None:
        name = self._config["name"]
        state = running.failure or (
            f"{name} runs; Ctrl-C ends it, saving its file starts it anew" if is_running else ""
        )
        if state and state != self._told:
            self._told = state
            self._tell(state)
            if running.failure and self._say.is_terminal:
                self._tell("mend it and save the file, or end it with Ctrl-C")

    def _is_all_written(self, view: RecordView, running: RunningConnector) -> bool:
        if self._feed is None or not self._feed.ended.is_set() or running.failure:
            return False
        group = self._config.get("consumer.override.group.id", f"connect-{self._config['name']}")
        try:
            done, there = view.written(group, self._topics())
        except KafkaException:
            return False
        if self._shown < there or done < there:
            return False
        left_out = " or left out as bad" if self._config.get("errors.tolerance") == "all" else ""
        self._tell(f"{done} records are written{left_out}")
        return True

    def _tell_log(self) -> None:
        for line in self._log.new():
            self._tell(line)

    def _tell(self, text: str) -> None:
        self._say.print(Text(text))
