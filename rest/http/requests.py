"""Reads requests: names in the path, JSON in the body, headers; refusals are Connect's, never a 422."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, NamedTuple, NoReturn, TypeVar
from urllib.parse import unquote

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.convertors import IntegerConvertor, StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException

from headrace.config.instants import epoch_ms
from headrace.rest.http.bodies import PartitionOffset, WantedOffsets
from headrace.worker.errors import BadRequest
from headrace.worker.herder.api import Herder
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.model import Config, Offset, Signed
from headrace.worker.storage.signing import ALGORITHM_HEADER, SIGNATURE_HEADER

T = TypeVar("T")


class _Segment(StringConvertor):
    """One path segment, percent-decoded only after routing: `a%2Fb` is the connector `a/b`."""

    def convert(self, value: str) -> str:
        return unquote(value)


class _TaskNumber(IntegerConvertor):
    """A task's number, of nine digits at most: a longer one matches no path, as in Connect."""

    regex = "[0-9]{1,9}"


register_url_convertor("segment", _Segment())
register_url_convertor("number", _TaskNumber())


async def _herder(request: Request) -> Herder:
    herder: Herder = request.app.state.herder
    return herder


HerderOf = Annotated[Herder, Depends(_herder)]
"""The worker's herder."""


async def knows_connectors(herder: HerderOf) -> None:
    """Refuses a request about connectors while the worker does not know them. Errors: Starting."""
    herder.check_known()


async def _metrics(request: Request) -> WorkerMetrics:
    metrics: WorkerMetrics = request.app.state.metrics
    return metrics


MetricsOf = Annotated[WorkerMetrics, Depends(_metrics)]
"""The worker's metrics."""


async def speaks_json(request: Request) -> None:
    """Refuses a client that sends something other than JSON, or does not accept JSON.

    Errors: HTTPException 415, 406.
    """
    # As in Connect, even without a body: a web page may send a form, or text, to any site without a preflight.
    if request.method not in ("GET", "HEAD") and _media_type(request) and not _sends_json(request):
        raise HTTPException(415)
    given = ",".join(request.headers.getlist("accept"))
    if given.strip() and not any(_takes_json(part) for part in given.split(",")):
        raise HTTPException(406)


def _takes_json(media_range: str) -> bool:
    media, *parameters = (part.strip().lower().replace(" ", "") for part in media_range.split(";"))
    return media in ("application/json", "application/*", "*/*", "*") and not any(
        parameter.startswith("q=0") and not parameter.strip("q=0.") for parameter in parameters
    )


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _sends_json(request: Request) -> bool:
    media = _media_type(request)
    return media == "application/json" or media.endswith("+json")


async def _raw(request: Request) -> bytes:
    raw = await request.body()
    if raw and not _sends_json(request):
        raise HTTPException(415)
    return raw


async def _read(request: Request, read: Callable[[bytes], T]) -> T:
    """Reads the body by this function off the event loop: other requests do not wait for a long one."""
    raw = await _raw(request)
    if not raw:
        raise BadRequest("The request has no body; send JSON.")
    return await run_in_threadpool(read, raw)


def _parsed(raw: bytes, of_int: Callable[[str], Any] = int, of_float: Callable[[str], Any] | None = None) -> Any:
    try:
        value = json.loads(raw, parse_int=of_int, parse_float=of_float or _finite, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate cannot be encoded in an answer
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"The request body is not valid JSON: {error}") from error
    return value


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant[:40]} is not a JSON value")


def _object_in(raw: bytes) -> dict[str, Any]:
    # Numbers keep their text, because settings are texts.
    return _object_of(_parsed(raw, str, str), "The request body")


async def _object(request: Request) -> dict[str, Any]:
    return await _read(request, _object_in)


def _object_of(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequest(f"{where} must be a JSON object, not {_json_type(value)}.")
    return value


JsonObject = Annotated[dict[str, Any], Depends(_object)]
"""The body, a JSON object with numbers as text."""


async def _config(request: Request) -> Config:
    return await _read(request, lambda raw: config_of(_object_in(raw)))


ConfigBody = Annotated[Config, Depends(_config)]
"""The body, a connector's config."""


class ToPreview(NamedTuple):
    """A config, or changes of one, and the records that take the place of a source's."""

    config: Config
    sample: list[dict[str, Any]] | None


async def _preview(request: Request) -> ToPreview:
    return await _read(request, _preview_in)


def _preview_in(raw: bytes) -> ToPreview:
    members = _object_in(raw)
    if not isinstance(members.get("sample"), list):  # a setting may have the name, but is no array
        return ToPreview(config_of(members), None)
    del members["sample"]
    sample = _parsed(raw)["sample"]
    return ToPreview(config_of(members), [_object_of(one, f"sample[{number}]") for number, one in enumerate(sample)])


PreviewBody = Annotated[ToPreview, Depends(_preview)]
"""The body, a config or changes of one; beside its settings it may have `sample`, an array of records."""


async def _offsets(request: Request) -> list[Offset]:
    return await _read(request, _offsets_in)


def _offsets_in(raw: bytes) -> list[Offset]:
    value = _parsed(raw)
    items = _object_of(value, "The request body").get("offsets")
    if items is None or items == []:
        raise BadRequest("Partitions / offsets need to be provided for an alter offsets request")
    unknown = [key for key in value if key not in WantedOffsets.model_fields]
    if unknown:
        raise BadRequest(f"Unrecognized field(s) {', '.join(unknown)}; the body has the one member offsets.")
    if not isinstance(items, list):
        raise BadRequest(f'The member "offsets" must be an array, not {_json_type(items)}.')
    return [_offset(item, f"offsets[{number}]") for number, item in enumerate(items)]


def _offset(item: Any, where: str) -> Offset:
    members = _object_of(item, where)
    unknown = [key for key in members if key not in PartitionOffset.model_fields]
    if unknown:
        raise BadRequest(f"Unrecognized field(s) {', '.join(unknown)} in {where}; it has partition and offset.")
    partition, offset = members.get("partition"), members.get("offset")
    if partition is None:
        # Connect's words for a sink; each source connector has its own.
        raise BadRequest("The partition for a sink connector offset cannot be null or missing")
    return _object_of(partition, f"{where}.partition"), None if offset is None else _object_of(
        offset, f"{where}.offset"
    )


OffsetsBody = Annotated[list[Offset], Depends(_offsets)]
"""The body, offsets of a connector's partitions; numbers stay numbers."""


async def _internal(request: Request) -> Signed:
    signed = Signed(b"", request.headers.get(SIGNATURE_HEADER), request.headers.get(ALGORITHM_HEADER))
    return replace(signed, body=await _raw(request)) if signed.is_signed else signed


SignedRequest = Annotated[Signed, Depends(_internal)]
"""Another worker's request: its signature, and its raw body, read only if there is a signature."""


def task_configs_of(request: Signed) -> list[Config]:
    """Reads a worker's task configs; empty without a signature, which the herder refuses. Errors: BadRequest."""
    if not request.is_signed:
        return []
    value = _parsed(request.body, str, str)
    if not isinstance(value, list):
        raise BadRequest(f"The request body must be an array of task configs, not {_json_type(value)}.")
    return [config_of(item, f"Task config {number}") for number, item in enumerate(value)]


def ms_of(instant: str) -> int:
    """Reads an instant since 1970 in ISO 8601, in UTC unless it says otherwise. Units: milliseconds of the epoch.

    Errors: BadRequest.
    """
    try:
        return epoch_ms(instant)
    except ValueError:
        raise BadRequest(f"{instant[:40]!r} is no instant in ISO 8601, such as 2026-11-28T17:00:00Z.") from None


def own_url(request: Request) -> str:
    """The URL by which the client reached this worker, without a trailing slash."""
    return f"{request.url.scheme}://{request.url.netloc}"


def config_of(value: Any, where: str = "The request body") -> Config:
    """Reads a config from a JSON object; booleans become text. Errors: BadRequest."""
    if not isinstance(value, dict):
        raise BadRequest(f"{where} must be a JSON object of texts, not {_json_type(value)}.")
    nested = [key for key, item in value.items() if isinstance(item, dict | list)]
    if nested:
        raise BadRequest(f"{where} must have a text for each key, but has objects or arrays for {', '.join(nested)}.")
    return {key: text_of(item) for key, item in value.items()}


def text_of(value: Any) -> str | None:
    """The text of a JSON scalar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def number_of(text: str, name: str, most: int) -> int:
    """Reads a number of the query, from 1 to `most`. Errors: BadRequest."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= most):
        raise BadRequest(f"{name}={text[:100]} is no number from 1 to {most}.")
    return int(text)


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    return "an array" if isinstance(value, list) else "an object" if isinstance(value, dict) else "a scalar"
