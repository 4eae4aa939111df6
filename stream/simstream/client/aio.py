"""The client for asyncio."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from simstream.client.pages import Submitted
from simstream.client.sync import IN_FLIGHT, TIMEOUT
from simstream.client.traffic import Traffic, log_of
from simstream.errors import ClientClosed
from simstream.model import Verdict


class AsyncClient:
    """The same as Client, for asyncio: it connects and closes in `async with`, and never blocks the loop.

    async with AsyncClient("kafka://127.0.0.1:9092") as client:
        verdict = await client.judge({"url": "https://a.example/1", "text": "…"})
    """

    def __init__(
        self,
        log: str | None = None,
        prefix: str | None = None,
        *,
        config: str | None = None,
        in_flight: int = IN_FLIGHT,
        timeout: float = TIMEOUT,
    ) -> None:
        """See Client. Raises SettingsError."""
        self._log = log_of(log, prefix, config, timeout)
        self._in_flight = in_flight
        self._timeout = timeout
        self._traffic: Traffic | None = None

    async def open(self) -> None:
        """Connect. Raises as Client does when it is made."""
        if self._traffic is None:
            self._traffic = await asyncio.to_thread(Traffic, self._log, self._in_flight, self._timeout)

    async def submit(
        self, page: Submitted, *, wait: float = TIMEOUT, timeout: float | None = None
    ) -> asyncio.Future[Verdict]:
        """Send a page once there is room; see Client.submit. Raises ClientFull, UsageError, ClientClosed."""
        traffic = self._opened()
        place = traffic.enter()
        try:
            if not place.done():
                await asyncio.wait_for(asyncio.wrap_future(place), wait)
            place.result()
        except TimeoutError:
            traffic.withdraw(place)
            raise traffic.full(wait) from None
        except BaseException:
            traffic.withdraw(place)
            raise
        return asyncio.wrap_future(traffic.send(page, timeout))

    async def judge(self, page: Submitted, *, wait: float = TIMEOUT, timeout: float | None = None) -> Verdict:
        """Send a page and await its verdict. Raises what `submit` and its future raise."""
        return await (await self.submit(page, wait=wait, timeout=timeout))

    async def close(self) -> None:
        """See Client.close. May be called again."""
        if self._traffic is not None:
            await asyncio.to_thread(self._traffic.close)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _opened(self) -> Traffic:
        if self._traffic is None:
            raise ClientClosed("the client is not open", "use it in `async with`, or await open() first")
        return self._traffic
