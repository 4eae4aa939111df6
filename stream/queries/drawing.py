"""The page at /docs and the files that it loads: Swagger UI, kept in memory, so that none is found by a path."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Final

from fastapi import FastAPI, HTTPException
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from swagger_ui_bundle import swagger_ui_path

_SCRIPT, _STYLE, _ICON = "swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"
_TYPES: Final = {_SCRIPT: "text/javascript", _STYLE: "text/css", _ICON: "image/png"}
_STEP_BYTES: Final = 1 << 16


def add_drawing(app: FastAPI, title: str) -> None:
    """Serve the page and its files. An answer is whole, whatever parts of it a request asks for."""
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title=title,
        swagger_js_url=f"/swagger/{_SCRIPT}",
        swagger_css_url=f"/swagger/{_STYLE}",
        swagger_favicon_url=f"/swagger/{_ICON}",
    )

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
    return (Path(str(swagger_ui_path)) / name).read_bytes()


async def _steps(content: bytes) -> AsyncIterator[bytes]:
    """In steps, so that a client that reads slowly has only one of them waiting."""
    for at in range(0, len(content), _STEP_BYTES):
        yield content[at : at + _STEP_BYTES]
