"""The OpenAPI document, and an HTML page of it; neither loads anything from another site."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from headrace.rest.security.access import NEEDS_NOTHING

router = APIRouter(include_in_schema=False)

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body{{font-family:sans-serif;margin:2em}}td,th{{padding:.2em 1em .2em 0;text-align:left;vertical-align:top}}
code{{white-space:nowrap}}</style></head>
<body><h1>{title}</h1><p>The same for programs: <a href="openapi.json">openapi.json</a></p>
<table><tr><th>Request<th>Parameters<th>Answers</tr>
{rows}
</table></body></html>
"""


@router.get("/openapi.json", dependencies=[NEEDS_NOTHING])
def document(request: Request) -> Response:
    return JSONResponse(request.app.openapi())


@router.get("/docs", dependencies=[NEEDS_NOTHING])
def page(request: Request) -> Response:
    described = request.app.openapi()
    rows = "\n".join(
        _row(f"{method.upper()} {path}", operation)
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    )
    return HTMLResponse(_PAGE.format(title=escape(described["info"]["title"]), rows=rows))


def _row(what: str, operation: dict[str, Any]) -> str:
    asked = ", ".join(one["name"] for one in operation.get("parameters", ()) if one["in"] == "query")
    answers = "<br>".join(
        f"{escape(status)} {escape(answer['description'])}" for status, answer in operation["responses"].items()
    )
    return f"<tr><td><code>{escape(what)}</code><td>{escape(asked)}<td>{answers}</tr>"
