"""The catalog that a tap is given: what it discovered, with streams selected and metadata added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from headrace.connectors.singer.errors import SingerError

_NEVER: Final = "unsupported"


def selected(discovered: Any, streams: Sequence[str], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the catalog of the streams that match one of the patterns, all of them selected.

    Errors: SingerError for what is no catalog, and for a pattern that matches nothing.
    """
    try:
        found: list[dict[str, Any]] = [dict(one) for one in discovered["streams"]]
        names = {str(one["tap_stream_id"]) for one in found}
    except (KeyError, TypeError, ValueError) as error:
        raise SingerError(f"printed what is no catalog: {error!r}") from error
    for pattern in (*streams, *metadata):
        if not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join(sorted(names)) or "none"
            raise SingerError(f"has no stream {pattern} of the settings streams and tap.metadata; it has {known}")
    wanted = [one for one in found if any(fnmatchcase(str(one["tap_stream_id"]), pattern) for pattern in streams)]
    for one in wanted:
        more = [of for pattern, of in metadata.items() if fnmatchcase(str(one["tap_stream_id"]), pattern)]
        one["metadata"] = _metadata(one.get("metadata") or (), more)
        one["selected"] = True  # taps of before metadata read it here
        one["schema"] = {**(one.get("schema") or {}), "selected": True}
        for of in more:
            one |= {key.replace("-", "_"): of[key] for key in ("replication-method", "replication-key") if key in of}
    return {**discovered, "streams": wanted}


def _metadata(given: Iterable[Mapping[str, Any]], more: Sequence[Any]) -> list[dict[str, Any]]:
    """Select the stream and all properties that the tap supports."""
    entries = [{**one, "metadata": dict(one.get("metadata") or {})} for one in given]
    if not any(list(one["breadcrumb"]) == [] for one in entries):
        entries.append({"breadcrumb": [], "metadata": {}})
    for one in entries:
        values = one["metadata"]
        values["selected"] = values.get("inclusion") != _NEVER
        if list(one["breadcrumb"]) == []:
            for of in more:
                values |= of
    return entries
