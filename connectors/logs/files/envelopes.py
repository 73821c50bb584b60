"""The envelopes that container engines write around each line: Docker's `json-file` and the format of CRI."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as pj

from headrace.connectors.logs.instants import milliseconds


class Format(StrEnum):
    """Formats of a log's lines."""

    PLAIN = "plain"
    JSON = "json"
    DOCKER = "docker"
    CRI = "cri"


class Pieces(NamedTuple):
    """Lines without their envelopes."""

    texts: pa.StringArray
    streams: pa.StringArray | None = None
    times: pa.Int64Array | None = None
    """Units: milliseconds since 1970."""
    partial: npt.NDArray[np.bool_] | None = None
    """True if the next line of the same stream goes on."""


_CRI: Final = r"(?s)^(?P<time>\S+) (?P<stream>stdout|stderr) (?P<tags>\S+) ?(?P<text>.*)$"
_DOCKER: Final = pa.schema([("log", pa.string()), ("stream", pa.string()), ("time", pa.string())])


def unwrapped(texts: pa.StringArray, kind: Format) -> Pieces:
    """The lines without their envelopes; a line without one stays as it is."""
    return _UNWRAP[kind](texts)


def _plain(texts: pa.StringArray) -> Pieces:
    return Pieces(texts)


def _cri(texts: pa.StringArray) -> Pieces:
    found = pc.extract_regex(texts, _CRI)
    given = pc.coalesce(pc.struct_field(found, "text"), texts)
    streams, times = pc.struct_field(found, "stream"), milliseconds(pc.struct_field(found, "time"))
    partial = pc.fill_null(pc.match_substring_regex(pc.struct_field(found, "tags"), "^P(:|$)"), False)
    return Pieces(given, streams, times, partial.to_numpy(zero_copy_only=False))


def _docker(texts: pa.StringArray) -> Pieces:
    found = _members(texts)
    log = found.column("log").combine_chunks()
    texts = pc.coalesce(log, texts)
    whole = pc.or_(pc.ends_with(texts, "\n"), pc.is_null(log))
    partial = pc.invert(whole).to_numpy(zero_copy_only=False)
    bare = pc.replace_substring_regex(texts, r"\r?\n\z", "")
    streams, times = found.column("stream").combine_chunks(), milliseconds(found.column("time").combine_chunks())
    return Pieces(bare, streams, times, partial)


def _members(texts: pa.StringArray) -> pa.Table:
    """Docker's members of each line; null for a line that is no such object."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    data = pc.binary_join(whole, "\n")[0].as_buffer()
    options = pj.ParseOptions(explicit_schema=_DOCKER, unexpected_field_behavior="ignore")
    try:
        table = pj.read_json(pa.BufferReader(data), pj.ReadOptions(False, max(1 << 20, data.size + 1)), options)
    except pa.ArrowInvalid:
        table = None
    if table is not None and table.num_rows == len(texts):
        return table
    # A line was torn, as by a loss of power: rare, so it may cost Python per line.
    return pa.Table.from_pylist([_member(text) for text in texts.to_pylist()], schema=_DOCKER)


def _member(text: str) -> dict[str, str | None]:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    values = found if isinstance(found, Mapping) and isinstance(found.get("log"), str) else {}
    texts = {name: value if isinstance(value := values.get(name), str) else None for name in _DOCKER.names}
    # Half of a pair of UTF-16, such as `\ud83d`, is no character.
    return {name: text and text.encode("utf-8", "replace").decode() for name, text in texts.items()}


_UNWRAP: Final[Mapping[Format, Callable[[pa.StringArray], Pieces]]] = {
    Format.PLAIN: _plain,
    Format.JSON: _plain,
    Format.DOCKER: _docker,
    Format.CRI: _cri,
}
