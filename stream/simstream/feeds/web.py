"""Serves the news page over HTTP: JSON, one page, and its static files. Loads nothing from another host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

import msgspec
from aiohttp import web

from simstream.errors import LogError, PageUnknown, SimstreamError, UsageError
from simstream.feeds.cards import StoryCards
from simstream.feeds.reasons import AWAY, FAILED, NO_ANSWER, READING, REASONS, code_of, code_of_status
from simstream.feeds.slices import SearchRunner, unhurried
from simstream.feeds.state import FeedState
from simstream.feeds.web_feeds import WRITERS, FeedAnswers, has_tag
from simstream.feeds.web_objects import asked_of, left_out, story, timeline
from simstream.telemetry.callers import CHALLENGE, CallerRefusal, CallerRules
from simstream.telemetry.metrics import CONTENT_TYPE
from simstream.telemetry.news_metrics import NewsMetrics

_logger = logging.getLogger("simstream.news")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Compare = Callable[[str, str], Awaitable[dict[str, Any]]]
SCRIPTS = ("feed", "address", "ask", "compare", "list", "nodes", "notice", "story", "words")
FILES = {
    "/": ("index.html", "text/html"),
    "/feed.css": ("feed.css", "text/css"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript") for name in SCRIPTS},
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Server": "simstream",
}
MAX_CARDS_A_PAGE = 200
ANSWER_S = 8.0
"""Seconds after which a question is given up. The page in the browser waits a little longer."""


class _TableUnread(Exception):
    """The news page still reads its table."""


class FeedWeb:
    """The routes of the news page. `compare` compares two pages by their ids; `callers` says who may ask."""

    def __init__(
        self,
        feed: FeedState,
        compare: Compare,
        callers: CallerRules | None = None,
        metrics: NewsMetrics | None = None,
    ) -> None:
        self._feed = feed
        self._compare = compare
        self._callers = callers or CallerRules()
        self._metrics = metrics or NewsMetrics()
        self._searches = SearchRunner()
        self._feeds = FeedAnswers(feed, self._searches)
        files = resources.files("simstream.feeds") / "static"
        self._files = {path: ((files / name).read_bytes(), kind) for path, (name, kind) in FILES.items()}

    def serve_on(self, app: web.Application) -> None:
        """Add the routes to an aiohttp application that has not started."""

        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        app.middlewares.append(guarded)
        for path in FILES:
            app.router.add_get(path, self._file)
        app.router.add_get("/api/stories", self._in_time(self._stories))
        app.router.add_get("/api/stories/{cluster:[0-9]{1,19}}", self._in_time(self._story))
        app.router.add_get("/api/compare", self._in_time(self._compared))
        for path in WRITERS:
            app.router.add_get(path, self._in_time(self._as_feed))
        app.router.add_get("/metrics", self._count)
        for path in ("/health/started", "/health/live"):
            app.router.add_get(path, self._live)
        app.router.add_get("/health/ready", self._ready)

    def _in_time(self, handler: Handler) -> Handler:
        """Return the handler with a deadline. While the table is read, it answers with an error that says so."""

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                async with asyncio.timeout(ANSWER_S):
                    return await handler(request)
            except TimeoutError:
                late = f"there was no answer within {ANSWER_S:g} s: ask again in a moment"
                return _json({"error": late, "code": NO_ANSWER}, 503)
            except _TableUnread:
                condition = self._feed.condition
                code = AWAY if condition.state == "away" else READING
                body = {"error": str(condition), "code": code, "condition": condition.to_json()}
                return _json(body, 503)

        return answer

    async def _file(self, request: web.Request) -> web.Response:
        body, kind = self._files[request.path]
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def _stories(self, request: web.Request) -> web.Response:
        cards, revision = self._now()
        asked, number, size = asked_of(request.query, MAX_CARDS_A_PAGE, self._feed.fold.stream_time)
        if has_tag(request, revision.strip('"')):
            return web.Response(status=304, headers={"ETag": revision})
        work = cards.find(asked, (number - 1) * size, number * size)
        found, total = await (self._searches.run(work) if not asked.is_all else unhurried(work))
        body = {
            "stories": [story(card) for card in found],
            "total": total,
            "page": number,
            "pages": max(1, -(-total // size)),
            "stream_time": self._feed.fold.stream_time,
            "window_ms": self._feed.limits.window_ms,
            "growth_ms": cards.growth_ms,
            "left_out": left_out(self._feed.fold),
            "untitled": self._feed.fold.counts.untitled,
            "condition": self._feed.condition.to_json(),
        }
        return _json(body, headers={"ETag": revision})

    async def _story(self, request: web.Request) -> web.Response:
        cards, revision = self._now()
        card = cards.get(int(request.match_info["cluster"]))
        if card is None:
            raise PageUnknown(*REASONS["story_gone"])
        if has_tag(request, revision.strip('"')):
            return web.Response(status=304, headers={"ETag": revision})
        body = story(card) | timeline(cards, card) | {"condition": self._feed.condition.to_json()}
        return _json(body, headers={"ETag": revision})

    async def _as_feed(self, request: web.Request) -> web.Response:
        cards, _ = self._now()
        return await self._feeds.answer(request, f"{self._feed.sign}-{self._feed.fold.revision}-{cards.revision}")

    async def _compared(self, request: web.Request) -> web.Response:
        self._now()
        a, b = request.query.get("a", ""), request.query.get("b", "")
        for page_id in (a, b):
            version = self._feed.fold.versions.get(page_id)
            if version is None or not version.is_live:
                raise PageUnknown(*REASONS["page_gone"])
        if self._feed.condition.state == "away":
            raise LogError(*REASONS["no_broker"])
        return _json(await self._compare(a, b))

    async def _count(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def _live(self, request: web.Request) -> web.Response:
        return web.Response(text="live\n")

    async def _ready(self, request: web.Request) -> web.Response:
        condition = self._feed.condition
        return web.Response(text=f"{condition}\n", status=200 if condition.state == "ready" else 503)

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse forbidden callers, and add the headers to every answer. Probes and metrics need no token."""
        refusal = self._callers.check_host(request.headers.get("Host"), request.headers.get("Origin"))
        if refusal is None and not request.path.startswith("/health/") and request.path != "/metrics":
            refusal = self._callers.check_token(request.headers.get("Authorization"))
        response = await _answer(request, handler) if refusal is None else _refused(refusal)
        response.headers.update(HEADERS)
        return response

    def _now(self) -> tuple[StoryCards, str]:
        """Return the cards and their ETag, which changes whenever an answer may change. Raises _TableUnread."""
        if not self._feed.sign:
            raise _TableUnread
        fold, cards = self._feed.fold, self._feed.cards
        cards.refresh()
        told = "-".join(map(str, self._feed.condition.to_json().values()))
        return cards, f'"{self._feed.sign}-{fold.revision}-{cards.revision}-{told}"'


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return the handler's answer; an error becomes an object with one sentence and the code of its reason."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        return _json({"error": error.reason, "code": code_of_status(error.status)}, error.status, headers)
    except SimstreamError as error:
        status = 400 if isinstance(error, UsageError) else 404 if isinstance(error, PageUnknown) else 503
        return _json({"error": str(error), "code": code_of(error)}, status)
    except Exception:
        _logger.exception("a question to the news page failed")
        return _json({"error": "the news page failed: its log says why", "code": FAILED}, 500)


def _refused(refusal: CallerRefusal) -> web.Response:
    headers = {"WWW-Authenticate": CHALLENGE} if refusal.status == 401 else None
    return _json({"error": refusal.why, "code": code_of_status(refusal.status)}, refusal.status, headers)


def _json(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body), status=status, content_type="application/json", headers=headers
    )
