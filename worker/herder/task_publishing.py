"""Publishes task configs: from the connector that made them, through the leader, to the config topic."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from headrace.plugins.backoff import Backoff
from headrace.worker.errors import ConnectError
from headrace.worker.group.membership import Membership
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.hosting.connector import WorkerConnector
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.hosting.herder_loop import HerderLoop, done
from headrace.worker.hosting.ports import PluginCatalog
from headrace.worker.model import TargetState
from headrace.worker.storage.config_topic import ConfigTopic

log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(0.25, 60.0)
"""Seconds between attempts to publish a connector's tasks."""
_NO_CLIENT: Final = (
    "another process leads this flow and cannot be told of them; set dedicated.mode.enable.internal.rest=true in the "
    "files of all processes, and start these again"
)


@dataclass(frozen=True)
class _Publication:
    """A connector instance's request to publish its task configs; dropped when the instance ends."""

    name: str
    instance: WorkerConnector
    attempt: int = 1


class TaskPublishing:
    """Takes connectors' task configs, and has them written if they differ from those in the config topic."""

    def __init__(
        self,
        decider: HerderLoop,
        plugins: PluginCatalog,
        config: ConfigTopic,
        membership: Membership,
        client: RestClient | None,
    ) -> None:
        """`client` posts to the leader; None if workers do not listen for one another."""
        self._loop = decider
        self._plugins = plugins
        self._config = config
        self._membership = membership
        self._client = client
        # The deciding thread must not wait for a leader that waits for this worker to rejoin.
        self._posting = ThreadPoolExecutor(1, "task-configs")
        self._stopped = threading.Event()

    def publish(self, name: str, instance: WorkerConnector) -> None:
        """Have the connector's task configs written to the config topic; returns at once. Any thread may call it."""
        self._begin(_Publication(name, instance))

    def stop(self) -> None:
        """Stop publishing."""
        self._stopped.set()
        self._posting.shutdown(wait=False, cancel_futures=True)

    def _begin(self, request: _Publication) -> None:
        if not self._stopped.is_set():
            self._loop.tell(f"reconfiguring the tasks of {request.name}", lambda: self._take(request))

    def _take(self, request: _Publication) -> Future[None]:
        if not self._current(request):
            return done(None)
        made = request.instance.task_configs(self._definition(request.name).max_tasks)
        doing = f"publishing the tasks of {request.name}"
        return self._loop.after(made, doing, lambda configs: self._write(request, configs))

    def _write(self, request: _Publication, made: Sequence[Mapping[str, str]]) -> None:
        if not self._current(request):
            return
        configured = self._definition(request.name)
        configured.check_count(len(made))
        configs = configured.completed(made)
        if configs == configured.task_configs and configured.applied == configured.config:
            return
        if self._membership.is_leader:
            try:
                self._config.put_tasks(request.name, configs)
            except ConnectError as error:
                self._again(request, error)
        else:
            self._posting.submit(self._post, request, configs)

    def _post(self, request: _Publication, configs: Sequence[Mapping[str, str]]) -> None:
        try:
            if self._client is None:
                raise ConnectError(_NO_CLIENT)
            url, key = self._membership.leader_url, self._config.snapshot().session_key
            if url is None or key is None:
                raise ConnectError("the leader or its session key is not known yet")
            self._client.post_tasks(url, request.name, configs, key)
        except Exception as error:
            self._again(request, error)

    def _again(self, request: _Publication, error: Exception) -> None:
        pause_s = BACKOFF.pause(request.attempt)
        log.info("The tasks of %s are not published yet, again in %.2f s: %s", request.name, pause_s, error)
        timer = threading.Timer(pause_s, lambda: self._begin(replace(request, attempt=request.attempt + 1)))
        timer.daemon = True
        timer.start()

    def _current(self, request: _Publication) -> bool:
        started = self._config.snapshot().targets.get(request.name) is TargetState.STARTED
        return started and request.instance.running

    def _definition(self, name: str) -> ConnectorDefinition:
        return ConnectorDefinition.of(name, self._config.snapshot(), self._plugins)
