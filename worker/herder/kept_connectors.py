"""Configures a MirrorMaker flow's connectors from this process's file while the process leads the flow."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from headrace.plugins.backoff import Backoff
from headrace.worker.errors import BadRequest, ConnectError, Elsewhere, NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.logging.redaction import log_text
from headrace.worker.model import Config

log = logging.getLogger(__name__)

_BACKOFF: Final = Backoff(1.0, 60.0)


class KeptConnectors:
    """Writes the configs that differ when this process begins to lead, as Apache does; `take_role` may follow at once.

    Decided: a config that could not be written is tried again, although Apache's leader only logs it; loses: nothing.
    """

    def __init__(self, flow: str, configs: Mapping[str, Config], herder: Herder, reachable: bool) -> None:
        """`configs` by the connectors' names; `reachable`: True if processes listen for one another."""
        self._flow = flow
        self._configs = configs
        self._herder = herder
        self._reachable = reachable
        self._stopped = threading.Event()
        # Validating and writing wait for the deciding thread.
        self._writing = ThreadPoolExecutor(1, "mirror-connectors")

    def take_role(self, leads: bool) -> None:
        """Configure the connectors if this process leads; returns at once."""
        if self._stopped.is_set():
            return
        if leads:
            log.info("This process leads %s now, and configures its connectors", self._flow)
            self._writing.submit(self._configure_all)
        elif not self._reachable:
            log.warning(
                "Another process leads %s. This one cannot tell it when topics or groups come or go, so the tasks of "
                "connectors that run here stay as they are: set dedicated.mode.enable.internal.rest=true in the files "
                "of all processes, and start these again",
                self._flow,
            )

    def stop(self) -> None:
        """Stop writing."""
        self._stopped.set()
        self._writing.shutdown(wait=False, cancel_futures=True)

    def _configure_all(self) -> None:
        for name, config in self._configs.items():
            attempt = 1
            while not self._stopped.is_set() and not self._configured(name, config, attempt):
                self._stopped.wait(_BACKOFF.pause(attempt))
                attempt += 1

    def _configured(self, name: str, config: Config, attempt: int) -> bool:
        """Configure a connector; returns False if another attempt may help."""
        try:
            if self._is_current(name, config):
                log.info("The config of %s in %s is up to date", name, self._flow)
                return True
            self._herder.configure(name, config)
        except Elsewhere:
            log.info("Another process leads %s now, and configures %s", self._flow, name)
        except BadRequest as error:
            log.error("%s of %s keeps its config, as that of the file is refused: %s", name, self._flow, error)
        except ConnectError as error:
            if self._stopped.is_set():
                return True
            pause_s = _BACKOFF.pause(attempt)
            log.warning(
                "%s of %s could not be configured, again in %.0f s: %s", name, self._flow, pause_s, log_text(error)
            )
            return False
        except Exception:
            log.exception("%s of %s could not be configured", name, self._flow)
        else:
            log.info("%s of %s is configured", name, self._flow)
        return True

    def _is_current(self, name: str, config: Config) -> bool:
        try:
            return self._herder.connector_info(name).config == config
        except NotFound:
            return False
