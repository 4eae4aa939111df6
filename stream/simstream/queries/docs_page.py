"""Serves the page at /docs: Swagger UI and its files, from memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from fastapi import FastAPI, HTTPException
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from simstream.errors import Unavailable

_SCRIPT, _STYLE, _START = "swagger-ui-bundle.js", "swagger-ui.css", "start.js"
_TYPES: Final = {_SCRIPT: "text/javascript", _STYLE: "text/css", _START: "text/javascript"}
_STEP_BYTES: Final = 1 << 16
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page's content security policy. Only styles may be inline, since Swagger UI writes them into its elements."""
_PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/swagger/swagger-ui.css"></head>
<body><div id="swagger-ui"></div>
<noscript>This page needs JavaScript. The API is described in <a href="/openapi.json">/openapi.json</a>.</noscript>
<script src="/swagger/swagger-ui-bundle.js"></script><script src="/swagger/start.js"></script></body>
</html>
"""
_STARTED: Final = b"""SwaggerUIBundle({
  url: "/openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null,
});
"""


def add_drawing(app: FastAPI, title: str) -> None:
    """Serve the page and its files. An answer is always whole, even if a request asks for parts."""
    page = HTMLResponse(_PAGE % escape(title), headers={"content-security-policy": POLICY})

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return page

    @app.get("/swagger/{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        if name not in _TYPES:
            raise HTTPException(404, "the page loads no such file")
        content = _content(name)
        headers = {"content-length": str(len(content)), "cache-control": "max-age=86400"}
        return StreamingResponse(_steps(content), media_type=_TYPES[name], headers=headers)


@cache
def _content(name: str) -> bytes:
    """Return a file's bytes, without importing the package that has the file."""
    if name == _START:
        return _STARTED
    found = find_spec("fastapi_offline")
    if found is None or found.origin is None:
        raise Unavailable(
            "the page /docs needs fastapi_offline, which is not installed", "run pip install 'simstream[query]'"
        )
    return (Path(found.origin).parent / "static" / name).read_bytes()


async def _steps(content: bytes) -> AsyncIterator[bytes]:
    """Yield the content in steps, so that only one step waits for a client that reads slowly."""
    for at in range(0, len(content), _STEP_BYTES):
        yield content[at : at + _STEP_BYTES]
