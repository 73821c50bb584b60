"""What a request carries: names in its path, flags in its query, JSON in its body; never a 422."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Request
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException

from headrace.worker.herder import BadRequest, Config, Herder


class _Segment(StringConvertor):
    """One path segment, percent-decoded only after routing: `a%2Fb` is the connector `a/b`."""

    def convert(self, value: str) -> str:
        return unquote(value)


register_url_convertor("segment", _Segment())


async def _herder(request: Request) -> Herder:
    herder: Herder = request.app.state.herder
    return herder


HerderOf = Annotated[Herder, Depends(_herder)]
"""The worker's herder."""


async def _body(request: Request) -> Any:
    raw = await request.body()
    if not raw:
        raise BadRequest("The request has no body; send a JSON object.")
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # A form's media type is refused as in Connect, which also keeps foreign web pages from posting here.
    if media and media != "application/json" and not media.endswith("+json"):
        raise HTTPException(415)
    try:
        # Numbers stay as they are written: settings are texts.
        value = json.loads(raw, parse_int=str, parse_float=str, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair could never be answered
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"The request body is not valid JSON: {error}") from error
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON value")


async def _object(request: Request) -> dict[str, Any]:
    value = await _body(request)
    if not isinstance(value, dict):
        raise BadRequest(f"The request body must be a JSON object, not {_json_type(value)}.")
    return value


JsonObject = Annotated[dict[str, Any], Depends(_object)]
"""The body, a JSON object in which numbers are texts."""


async def _config(request: Request) -> Config:
    return config_of(await _object(request))


ConfigBody = Annotated[Config, Depends(_config)]
"""The body, a connector's config."""


def config_of(value: Any, where: str = "The request body") -> Config:
    """The config that a JSON object is; booleans become text.

    Errors: BadRequest.
    """
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


def flag(request: Request, name: str, default: bool = False) -> bool:
    """A query parameter that is true where its text is `true`, in any case, and else false."""
    value = request.query_params.get(name)
    return default if value is None else value.lower() == "true"


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    return "an array" if isinstance(value, list) else "an object" if isinstance(value, dict) else "a scalar"
