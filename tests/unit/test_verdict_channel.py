"""The crawler's connection to the service, where an error ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from simstream.crawlers import channel as module
from simstream.crawlers.channel import VerdictChannel
from simstream.crawlers.options import CrawlOptions
from simstream.errors import LogDamaged

PAGE = {"id": "a", "text": "some text"}


class EndedClient:
    """Serves one page, then fails for good."""

    made = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        type(self).made += 1
        self.ended = False

    async def open(self) -> None:
        pass

    async def submit(self, page: Mapping[str, Any], **_: float) -> asyncio.Future[Any]:
        self.ended = True
        raise LogDamaged("a record of verdicts is damaged", "check the disk")

    async def close(self) -> None:
        pass


class Stats:
    def inc_value(self, name: str, by: float = 1) -> None:
        pass


def test_a_connection_that_an_error_has_ended_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AsyncClient", EndedClient)
    monkeypatch.setattr(module, "RETRY_S", 0.0)

    async def crawl() -> None:
        channel = VerdictChannel(CrawlOptions("log", "prefix", wait=1.0), Stats())
        await channel.open()
        for _ in range(3):
            assert await channel.judge(PAGE) is None  # it fails, and is dropped
            assert await channel.judge(PAGE) is None  # the next one is opened
            await asyncio.sleep(0.01)
        await channel.close()

    asyncio.run(crawl())
    assert EndedClient.made == 4
