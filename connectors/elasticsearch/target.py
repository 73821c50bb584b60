"""The cluster of a sink, as its writers find it in their process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

from headrace.connectors.elasticsearch.access import Access
from headrace.connectors.elasticsearch.indices import Indices
from headrace.connectors.elasticsearch.options import SinkOptions
from headrace.connectors.elasticsearch.server import Server


class Link:
    """Open connections to a cluster, with what is known of its indices."""

    def __init__(self, access: Access, options: SinkOptions) -> None:
        self.server = Server(access)
        self.indices = Indices(self.server, options)

    def close(self) -> None:
        """Closes the connections."""
        self.server.close()


_KEPT: Final[WeakValueDictionary[str, Link]] = WeakValueDictionary()


def keep(name: str, link: Link) -> None:
    """Have writers of this name use the link, in this process."""
    _KEPT[name] = link


@dataclass(frozen=True)
class Target:
    """The cluster and the settings of a writer. Picklable."""

    name: str
    access: Access
    options: SinkOptions
    mappings: list[str] = field(default_factory=list)
    """Mappings by their number; the task adds those that it meets."""

    def kept(self) -> Link | None:
        """The task's own link, if this is its process."""
        return _KEPT.get(self.name)

    def open(self) -> Link:
        """A link of the caller's own. Errors: ConfigError."""
        return Link(self.access, self.options)
