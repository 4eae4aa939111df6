"""Sends the pages of a question to the service, and waits for their verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from simstream.client.aio import AsyncClient
from simstream.errors import VerdictLate
from simstream.model import Verdict


class VerdictCaller:
    """Sends pages and awaits their verdicts by clients of `make_client`, one at a time. For one event loop."""

    def __init__(self, make_client: Callable[[], AsyncClient]) -> None:
        self._make_client = make_client
        self._opening: asyncio.Future[AsyncClient] | None = None
        self._closing: asyncio.Future[None] | None = None

    async def judge(self, page: Mapping[str, Any], timeout: float) -> Verdict:
        """Return the page's verdict within `timeout` seconds, connecting included.

        Raises VerdictLate after `timeout`, and the errors of AsyncClient.open and AsyncClient.judge.
        """
        async with _within(timeout):
            client = await self._opened()
            return await client.judge(page, wait=timeout, timeout=timeout)

    async def open(self, timeout: float) -> None:
        """Connect within `timeout` seconds, if no client is open. Raises as `judge`."""
        async with _within(timeout):
            await self._opened()

    async def close(self) -> None:
        """End the client, if there is one."""
        if self._opening is None:
            return
        self._opening.cancel()  # no effect if the client is open
        await asyncio.wait({self._opening})
        if not self._opening.cancelled() and self._opening.exception() is None:
            await self._opening.result().close()

    async def _opened(self) -> AsyncClient:
        """Return the client; the first call opens it, and the first one after it has ended opens another.

        A caller that leaves early does not stop the opening.
        """
        if self._opening is not None and self._opening.done():
            if self._opening.exception() is not None:
                self._opening = None
            elif self._opening.result().ended:
                self._closing = asyncio.ensure_future(self._opening.result().close())
                self._opening = None
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> AsyncClient:
        client = self._make_client()
        await client.open()
        return client


@asynccontextmanager
async def _within(timeout: float) -> AsyncIterator[None]:
    """End the block after so many seconds. Raises VerdictLate then."""
    try:
        async with asyncio.timeout(timeout):
            yield
    except TimeoutError:
        raise VerdictLate(f"no verdict came within {timeout:g} s", "wait: the page may still be judged") from None
