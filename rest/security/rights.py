"""Checks requests against the present rights file, and words the refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.config.worker.rights import EVERYTHING, RIGHTS_FILE, Grants, Right, Rights
from headrace.rest.security.principal import Principal
from headrace.rest.security.watched_file import WatchedFile
from headrace.worker.errors import Forbidden

RightsFile = WatchedFile[Rights]


def rights_of(settings: Mapping[str, Any]) -> RightsFile | None:
    """The rights file of a worker with these settings; None if everybody may do everything. Errors: ConfigError."""
    path = settings.get(RIGHTS_FILE)
    return None if path is None else WatchedFile(Path(path), Rights.read)


@dataclass(frozen=True)
class Access:
    """The rights of a request's principal."""

    principal: Principal
    grants: Grants

    @classmethod
    def of(cls, principal: Principal, rights: Rights | None) -> Access:
        """The access by these rights; None gives all."""
        return cls(principal, EVERYTHING if rights is None else rights.of(principal.name, principal.groups))

    def may(self, right: Right, connector: str) -> bool:
        """True if the right is given for this connector."""
        return self.grants.may(right, connector)

    def visible(self, connectors: Iterable[str]) -> list[str]:
        """The connectors that the requester may view."""
        return [name for name in connectors if self.may(Right.VIEW, name)]

    def require(self, right: Right, connector: str) -> None:
        """Refuses a requester without the right for this connector, in the same words even if it does not exist.

        Errors: Forbidden.
        """
        if not self.grants.may(right, connector):
            raise self._refusal(right, f"for the connector {connector!r}")

    def require_any(self, right: Right) -> None:
        """Refuses a requester with the right for no connector. Errors: Forbidden."""
        if not self.grants.may_any(right):
            raise self._refusal(right, "" if right is Right.ADMIN else "for any connector")

    def require_all(self, right: Right) -> None:
        """Refuses a requester without the right for every connector, by the pattern `*`. Errors: Forbidden."""
        if not self.grants.may_all(right):
            raise self._refusal(right, "for all connectors")

    def _refusal(self, right: Right, what: str) -> Forbidden:
        lacking = " ".join(filter(None, (str(right), what)))
        return Forbidden(
            f"{self.principal.name} lacks the right {lacking}. Who keeps this worker's {RIGHTS_FILE} can add it."
        )
