"""Pages that a question adds: one client, opened when the first of them comes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from stream.client.aio import AsyncClient
from stream.model import Verdict


class Judge:
    """Sends pages and awaits their verdicts. For one event loop."""

    def __init__(self, log: str, prefix: str, config: str | None) -> None:
        self._where = log, prefix, config
        self._client: AsyncClient | None = None
        self._opening = asyncio.Lock()

    async def judge(self, page: Mapping[str, Any], timeout: float) -> Verdict:
        """The page's verdict. Raises what AsyncClient.judge raises, and what opening it does."""
        client = await self._opened()
        return await client.judge(page, wait=timeout, timeout=timeout)

    async def close(self) -> None:
        """End the client, if there is one."""
        if self._client is not None:
            await self._client.close()

    async def _opened(self) -> AsyncClient:
        async with self._opening:
            if self._client is None:
                log, prefix, config = self._where
                client = AsyncClient(log, prefix, config=config)
                await client.open()
                self._client = client
            return self._client
