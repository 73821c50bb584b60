"""The way of task configs from the connector that made them to the config topic: through the leader."""

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
from headrace.worker.hosting.herder_loop import HerderLoop, done
from headrace.worker.hosting.work import LocalWork
from headrace.worker.model import TargetState
from headrace.worker.storage.config_topic import ConfigTopic

log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(0.25, 60.0)
"""Seconds between attempts to publish a connector's tasks."""


@dataclass(frozen=True)
class _Request:
    """One connector's wish for new task configs; the instance tells a wish from that of a successor."""

    name: str
    instance: WorkerConnector
    attempt: int = 1


class TaskPublishing:
    """Asks connectors for their task configs, and has them written where they differ from what is there."""

    def __init__(
        self,
        decider: HerderLoop,
        config: ConfigTopic,
        membership: Membership,
        client: RestClient,
    ) -> None:
        self._decider = decider
        self._config = config
        self._membership = membership
        self._client = client
        self.local: LocalWork
        """Set before anything is asked for."""
        # A leader that waits for this worker's rejoin must not be waited for by the deciding thread.
        self._posting = ThreadPoolExecutor(1, "task-configs")
        self._stopped = threading.Event()

    def ask(self, name: str, instance: WorkerConnector) -> None:
        """The connector's task configs will be the cluster's; from any thread."""
        self._begin(_Request(name, instance))

    def stop(self) -> None:
        """Nothing is published any more."""
        self._stopped.set()
        self._posting.shutdown(wait=False, cancel_futures=True)

    def _begin(self, request: _Request) -> None:
        if not self._stopped.is_set():
            self._decider.tell(f"reconfiguring the tasks of {request.name}", lambda: self._take(request))

    def _take(self, request: _Request) -> Future[None]:
        if not self._current(request):
            return done(None)
        cluster = self._config.snapshot()
        made = request.instance.task_configs(self.local.configured(request.name, cluster).max_tasks)
        doing = f"publishing the tasks of {request.name}"
        return self._decider.after(made, doing, lambda configs: self._publish(request, configs))

    def _publish(self, request: _Request, made: Sequence[Mapping[str, str]]) -> None:
        if not self._current(request):
            return
        configured = self.local.configured(request.name, self._config.snapshot())
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

    def _post(self, request: _Request, configs: Sequence[Mapping[str, str]]) -> None:
        try:
            url, key = self._membership.leader_url, self._config.snapshot().session_key
            if url is None or key is None:
                raise ConnectError("the leader or its session key is not known yet")
            self._client.post_tasks(url, request.name, configs, key)
        except Exception as error:
            self._again(request, error)

    def _again(self, request: _Request, error: Exception) -> None:
        pause_s = BACKOFF.pause(request.attempt)
        log.info("The tasks of %s are not published yet, again in %.2f s: %s", request.name, pause_s, error)
        timer = threading.Timer(pause_s, lambda: self._begin(replace(request, attempt=request.attempt + 1)))
        timer.daemon = True
        timer.start()

    def _current(self, request: _Request) -> bool:
        """Whether no later decision took the instance's place or wants no tasks of it."""
        cluster = self._config.snapshot()
        started = cluster.targets.get(request.name) is TargetState.STARTED
        return started and self.local.instance(request.name) is request.instance and request.instance.running
