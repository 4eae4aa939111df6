"""The news page without a broker: the real web over a feed whose condition, answers and end a test decides."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from deploy.server_process import free_port
from simstream.feeds.comparison import side_by_side
from simstream.feeds.condition import FeedCondition, FeedPartition
from simstream.feeds.fold import FoldLimits
from simstream.feeds.state import FeedState
from simstream.feeds.web import FeedWeb
from tests.unit.test_feed_costs import feed_of

PAGES = FeedPartition("pages", 0)


class NewsStage:
    """A feed of so many stories of two pages each, on a port of its own."""

    def __init__(
        self, stories: int, cluster_of: Callable[[int], int] | None = None, limits: FoldLimits | None = None
    ) -> None:
        self.now = 0.0
        self.feed: FeedState = feed_of(2 * stories, cluster_of or (lambda number: number - number % 2), limits)
        self.feed.condition = FeedCondition(lambda: self.now)
        self.feed.condition.has_read_table = True
        self.texts = ("The same. One more.", "The same. Another.")
        self.is_frozen = False
        """Whether questions stay without an answer."""
        self.port = free_port()
        self.hear(0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.port}/"

    def hear(self, end: int) -> None:
        """A broker says where its topic ends."""
        self.feed.condition.hear({PAGES: end})

    def start(self) -> None:
        """Listen."""
        self._run(self._start())

    def stop(self) -> None:
        """Answer no more."""
        self._run(self._runner.cleanup())

    def close(self) -> None:
        """End the thread."""
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _start(self) -> None:
        @web.middleware
        async def freeze(request: web.Request, handler: Callable[..., Awaitable[Any]]) -> Any:
            await self._thaw(request)
            return await handler(request)

        app = web.Application(middlewares=[freeze])
        FeedWeb(self.feed, self._compare).serve_on(app)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def _thaw(self, request: web.Request) -> None:
        while self.is_frozen and request.path.startswith("/api/"):
            await asyncio.sleep(0.05)

    async def _compare(self, a: str, b: str) -> dict[str, Any]:
        while not all(self.texts):
            await asyncio.sleep(0.05)
        return side_by_side(*self.texts)

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


@contextmanager
def on_stage(
    stories: int, cluster_of: Callable[[int], int] | None = None, limits: FoldLimits | None = None
) -> Iterator[NewsStage]:
    """A stage that ends with its test."""
    stage = NewsStage(stories, cluster_of, limits)
    try:
        yield stage
    finally:
        stage.close()
