"""Comparisons whose caller gives up before they fail."""

from __future__ import annotations

import asyncio
import gc
import threading
from types import SimpleNamespace
from typing import Any

from simstream.errors import LogError
from simstream.feeds.run import _ComparisonRunner
from tests.waiting import soon


def test_the_error_of_a_comparison_that_was_given_up_is_no_traceback() -> None:
    go_on, unheard = threading.Event(), list[dict[str, Any]]()

    def compare(*_: object) -> dict[str, Any]:
        assert go_on.wait(30)
        raise LogError("the texts could not be read in time", "ask again")

    feed: Any = SimpleNamespace(fold=SimpleNamespace(versions={"a": None, "b": None}))
    texts: Any = SimpleNamespace(compare=compare)

    async def give_up() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        runner = _ComparisonRunner(feed, texts)
        try:
            async with asyncio.timeout(0.05):
                await runner("a", "b")
        except TimeoutError:
            go_on.set()
        await soon(lambda: len(asyncio.all_tasks()) == 1, "the question ends")
        gc.collect()

    asyncio.run(give_up())
    assert go_on.is_set()
    assert not unheard
