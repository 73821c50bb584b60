"""The installed dialects: ours, and those of other packages in the entry point group."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from headrace.connectors.jdbc.contract.dialect import Dialect

GROUP: Final = "headrace.jdbc.dialect"


@cache
def dialects() -> Mapping[str, type[Dialect]]:
    """The installed dialects by their names."""
    return {entry.name: entry.load() for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def dialect_for(subprotocol: str, name: str = "") -> Dialect:
    """The dialect of this name; without name the first that serves the URL.

    A name chooses among those that serve the URL: the worker allowed the URL by their rules. Errors: ValueError that
    names the choices.
    """
    found = dialects()
    if name:
        by_name = found.get(name) or found.get(f"{name}DatabaseDialect")
        if by_name is None:
            raise ValueError(f"there is no dialect {name!r}, but {', '.join(found)}")
        if subprotocol not in by_name.subprotocols:
            own = ", ".join(f"jdbc:{one}:" for one in by_name.subprotocols)
            raise ValueError(f"{by_name.name} serves {own} and not jdbc:{subprotocol}: (leave dialect.name out)")
        return by_name()
    for dialect in found.values():
        if subprotocol in dialect.subprotocols:
            return dialect()
    served = ", ".join(f"jdbc:{one}:" for dialect in found.values() for one in dialect.subprotocols)
    raise ValueError(
        f"no dialect serves jdbc:{subprotocol}: (those here serve {served}); install a package that brings one in the "
        f"entry point group {GROUP}"
    )
