"""Whether a request may do what it asks: the rights file, reread when it changes, and the answer where it says no."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.problems import ConfigError
from headrace.config.rights import EVERYTHING, RIGHTS_FILE, Grants, Right, Rights
from headrace.rest.security.principal import Principal
from headrace.worker.errors import Forbidden

log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0

_Stamp = tuple[int, int, int] | None


class RightsFile:
    """The rights that a file gives now; any thread may ask."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the file.

        Errors: ConfigError with its lines and what to do.
        """
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp = _stamp(path)
        self._looked = clock()
        self.rights = Rights.read(path)

    def is_due(self) -> bool:
        """Whether it is time to look at the file again."""
        return self._clock() - self._looked >= _LOOK_S

    def refresh(self) -> None:
        """Read the file again if it has changed; a broken one changes nothing, which the log tells once."""
        if not self._lock.acquire(blocking=False):
            return  # another thread does it
        try:
            self._looked = self._clock()
            # Before the text, so that a change while it is read is met at the next look.
            stamp = _stamp(self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                self.rights = Rights.read(self._path)
                log.info("The rights file %s was read again; it has %d rules", self._path, len(self.rights.rules))
        except ConfigError as error:
            log.error("The rights stay as they were, because their file is broken: %s", error)
        finally:
            self._lock.release()


def rights_of(settings: Mapping[str, Any]) -> RightsFile | None:
    """The rights file of a worker with these settings; None where everybody may do everything.

    Errors: ConfigError.
    """
    path = settings.get(RIGHTS_FILE)
    return None if path is None else RightsFile(path)


@dataclass(frozen=True)
class Access:
    """What the principal of a request may do."""

    principal: Principal
    grants: Grants

    @classmethod
    def of(cls, principal: Principal, rights: Rights | None) -> Access:
        """By these rights; None gives all."""
        return cls(principal, EVERYTHING if rights is None else rights.of(principal.name, principal.groups))

    def may(self, right: Right, connector: str) -> bool:
        """Whether it is given for this connector."""
        return self.grants.may(right, connector)

    def visible(self, connectors: Iterable[str]) -> list[str]:
        """Those whose existence may be known."""
        return [name for name in connectors if self.may(Right.VIEW, name)]

    def require(self, right: Right, connector: str) -> None:
        """Refuse who lacks the right for this connector, in the same words whether or not there is one.

        Errors: Forbidden.
        """
        if not self.grants.may(right, connector):
            raise self._refusal(right, f"for the connector {connector!r}")

    def require_any(self, right: Right) -> None:
        """Refuse who has it for no connector.

        Errors: Forbidden.
        """
        if not self.grants.may_any(right):
            raise self._refusal(right, "" if right is Right.ADMIN else "for any connector")

    def require_all(self, right: Right) -> None:
        """Refuse who does not have it for every connector, by the pattern `*`.

        Errors: Forbidden.
        """
        if not self.grants.may_all(right):
            raise self._refusal(right, "for all connectors")

    def _refusal(self, right: Right, what: str) -> Forbidden:
        lacking = " ".join(filter(None, (str(right), what)))
        return Forbidden(
            f"{self.principal.name} lacks the right {lacking}. Who keeps this worker's {RIGHTS_FILE} can add it."
        )


def _stamp(path: str) -> _Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
