"""Serves the API: questions to the live state, words of texts, pages to be judged, an OpenAPI description.

Answers are made in threads, never in the event loop: kernels and the state's turn would hold it.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, FastAPI, HTTPException, Query, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel

from simstream import __version__
from simstream.errors import SimstreamError
from simstream.judge.lookups import KnownCluster
from simstream.model import Page, Record, Verdict
from simstream.queries import models
from simstream.queries.docs_page import add_drawing
from simstream.queries.limits import MAX_BYTES
from simstream.queries.page_lines import (
    MAX_LINES,
    NdjsonRoute,
    detail_of,
    explain_bad_page,
    judge_lines,
    page_lines,
    status_of,
)
from simstream.queries.request_bodies import JSON, NDJSON, explain_errors
from simstream.queries.verdict_caller import VerdictCaller
from simstream.queries.words import words_of
from simstream.roles.query import NAME, MatchResult, QueryRole
from simstream.telemetry.health import ServiceHealth
from simstream.telemetry.metrics import ASKED, Metrics
from simstream.text.fingerprinter import Fingerprinter
from simstream.wire.page import PageLimits, decode

SHOWN = "simstream: questions"
MAX_WAIT_S = 60.0
_LIMITS = PageLimits(max_record_bytes=MAX_BYTES * 6)  # every character may be escaped
_REFUSALS: Final = {
    400: "the body is no JSON in UTF-8",
    403: "a web page of another origin may not ask",
    408: "the body did not come in time",
    413: "the body is too large",
    421: "this port does not answer to the name in Host",
    422: "the question has a wrong form",
    503: "it is not ready yet, or has too much to answer now",
}
"""Why any question may be refused. A GET may have a body, too."""
_POSTED: Final = {415: "the body has a content-encoding"}
Timeout = Annotated[float, Query(gt=0, le=MAX_WAIT_S, description="seconds, for each page")]
Listed = Annotated[int, Query(ge=1, le=models.MAX_LISTED, description="members listed")]


def make_app(
    role: QueryRole, fingerprinter: Fingerprinter, judge: VerdictCaller, health: ServiceHealth, metrics: Metrics
) -> FastAPI:
    """Return the application. It asks only what any thread may ask."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        await judge.close()

    app = FastAPI(
        title=SHOWN,
        version=__version__,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        responses=_refusals(_REFUSALS),
        generate_unique_id_function=lambda route: route.name,  # what generated clients call it
        redirect_slashes=False,  # behind a proxy with TLS, a redirect would name a plain http address
    )
    app.router.tags.append("questions")  # the heading of all routes at /docs
    add_drawing(app, SHOWN)

    @app.get("/", include_in_schema=False)
    def front() -> RedirectResponse:
        return RedirectResponse("/docs")

    @app.middleware("http")
    async def measured(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        began = time.perf_counter()
        response = await go_on(request)
        path = request.url.path.removeprefix("/").partition("/")[0]
        if path in ASKED.values:
            metrics.query_seconds.labels(path).observe(time.perf_counter() - began)
        return response

    @app.exception_handler(SimstreamError)
    async def told(_: Request, error: SimstreamError) -> Response:
        return JSONResponse({"detail": detail_of(error)}, status_of(error))

    @app.exception_handler(RequestValidationError)
    async def misunderstood(request: Request, error: RequestValidationError) -> Response:
        errors = [{**one, "loc": one["loc"][1:]} for one in error.errors()]  # without `body`, `query`, `path`
        explain = explain_bad_page if request.url.path == "/judge" else explain_errors
        return JSONResponse({"detail": explain(errors)}, 422)

    def check_ready(only: str | None = NAME) -> None:
        """Answer 503 if this role is not ready. Questions need not wait for a judge in the same process."""
        good, why = health.ready(only)
        if not good:
            raise HTTPException(503, f"not ready: {why}")

    def matches(results: list[MatchResult]) -> dict[str, object]:
        return {"policy": role.policy.id, "live_pages": role.live_pages, "results": results}

    @app.get(
        "/ready",
        **_asking("Tell whether the process is ready, and how many pages are live", models.ReadyAnswer, {}),
    )
    def ready() -> dict[str, object]:
        check_ready(None)
        return {"ready": True, "live_pages": role.live_pages, "policy": role.policy.id}

    @app.post(
        "/match",
        **_asking("Find the live pages that each text matches; adds no page", models.MatchesAnswer, _POSTED),
    )
    def match(asked: models.PagesQuestion) -> dict[str, object]:
        check_ready()
        contents = [{"text": text} for text in asked.texts]
        contents += [page.model_dump(exclude_none=True) for page in asked.pages]
        return matches(role.match([_decoded(content) for content in contents], asked.limit))

    @app.post(
        "/match/fingerprints",
        **_asking(
            "Find the live pages that each fingerprint matches, with or without its sketch",
            models.MatchesAnswer,
            _POSTED,
        ),
    )
    def match_fingerprints(asked: models.FingerprintsQuestion) -> dict[str, object]:
        check_ready()
        results, words, fingerprints = [], role.policy.sketch_bits // 64, role.policy.fingerprints
        for one in asked.fingerprints:
            digits = [one.fingerprint[at : at + 16] for at in range(0, len(one.fingerprint), 16)]
            if len(digits) != fingerprints:
                raise HTTPException(422, f"a page has {fingerprints} fingerprints of 16 digits, not {len(digits)}")
            if one.sketch is not None and len(one.sketch) != words:
                raise HTTPException(422, f"a sketch has {words} words, not {len(one.sketch)}")
            sketch = None if one.sketch is None else [int(word, 16) for word in one.sketch]
            own = [int(one_of, 16) for one_of in digits]
            results.append(MatchResult(role.near(own, sketch, asked.limit), None))
        return matches(results)

    @app.get(
        "/page",
        **_asking(
            "Show a page's cluster with its members, and its verdict if it is recent",
            models.PageAnswer,
            {404: "no live page and no recent verdict has this id"},
        ),
    )
    def page(
        id: Annotated[str, Query(max_length=2048)],  # the field's name everywhere
        limit: Listed = 100,
    ) -> dict[str, object]:
        check_ready()
        (page, cluster), verdict = role.page(id, limit) or (None, None), role.verdict(id)
        if page is None and verdict is None:
            raise HTTPException(
                404,
                "no live page and no recent verdict has this id: check the id, or wait until the page is judged",
            )
        return {"page": page, "cluster": cluster, "verdict": verdict}

    @app.get(
        "/cluster/{cluster_id}",
        **_asking(
            "Show a cluster and its oldest members",
            models.ClusterAnswer,
            {404: "no cluster of pages has this id"},
        ),
    )
    def cluster(cluster_id: int, limit: Listed = 100) -> KnownCluster:
        check_ready()
        found = role.cluster(cluster_id, limit) if 0 <= cluster_id < 2**63 else None
        if found is None:
            raise HTTPException(
                404,
                "no cluster of pages has this id: use the survivor's id if it was merged, /page if it has one page",
            )
        return found

    @app.post(
        "/tokens",
        **_asking(
            "Cut texts into words, as jieba does, or show the words that count with their weights",
            models.TokensAnswer,
            {**_POSTED, 413: "too much text, or too many words"},
        ),
    )
    def tokens(asked: models.TokensQuestion) -> Response:
        return Response(msgspec.json.encode({"results": words_of(fingerprinter, asked)}), media_type=JSON)

    app.include_router(_judging(judge))
    return app


def _judging(judge: VerdictCaller) -> APIRouter:
    """Return `POST /judge` for one page (JSON), and for the pages of lines (NDJSON)."""
    routes, of_lines = APIRouter(), APIRouter(route_class=NdjsonRoute)

    @of_lines.post("/judge", include_in_schema=False)
    async def judged_lines(request: Request, timeout: Timeout = 10.0) -> Response:
        lines = page_lines(await request.body())
        await judge.open(timeout)
        return StreamingResponse(judge_lines(lines, judge, timeout), media_type=NDJSON)

    refusals = {
        400: "the body is no JSON in UTF-8, or has more lines than one body may have",
        401: "without the service's token, if it has one",
        413: "the page, or the body, is too large",
        415: "the body has a content-encoding, or is not declared as JSON or NDJSON",
        422: "the body is no page",
        503: "the service cannot judge now",
        504: "no verdict came in time; the page may still be judged",
    }
    lines_of = "one line for each page, in the order of the pages: a verdict, or `line`, `status` and `detail`"

    @routes.post(
        "/judge",
        # for the description alone: `CallerGuard` asks for the token
        dependencies=[Security(HTTPBearer(auto_error=False))],
        summary=f"Add a page, or up to {MAX_LINES:,} as NDJSON, and wait for the verdicts",
        response_model=models.VerdictAnswer,
        responses={
            200: {"content": {NDJSON: {"schema": {"type": "string", "description": lines_of}}}},
            **_refusals(refusals),
        },
        openapi_extra={
            "requestBody": {
                "content": {NDJSON: {"schema": {"type": "string", "description": "one page in JSON on each line"}}}
            }
        },
    )
    async def judge_page(asked: models.PageToJudge, timeout: Timeout = 10.0) -> Verdict:
        return await judge.judge(asked.model_dump(exclude_none=True), timeout)

    of_lines.include_router(routes)
    return of_lines


def _asking(summary: str, answer: type[BaseModel], refusals: Mapping[int, str]) -> dict[str, Any]:
    """Return the description of a question: what it does, its answer, and why it may be refused, by the status."""
    return {"summary": summary, "response_model": answer, "responses": _refusals(refusals)}


def _refusals(whys: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": models.ProblemAnswer, "description": why} for status, why in sorted(whys.items())}


def _decoded(content: dict[str, str]) -> Page:
    return decode(Record("", 0, 0, None, json.dumps(content).encode()), _LIMITS)
