"""A page judged over the API: its time is over when it said so, whatever the client behind it does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from simstream.errors import BrokerUnreachable, VerdictLate
from simstream.queries.models import PageToJudge
from simstream.queries.verdict_caller import VerdictCaller


class SlowClient:
    """Takes its time to open and to judge, and heeds no limit."""

    opens: asyncio.Event | None = None
    judges: asyncio.Event | None = None
    """What it waits for before it has opened, and before it has judged."""

    opened = 0
    closed = 0
    fails: Exception | None = None

    async def open(self) -> None:
        if self.opens is not None:
            await self.opens.wait()
        if self.fails is not None:
            raise self.fails
        type(self).opened += 1

    async def judge(self, page: Mapping[str, Any], **_: float) -> str:
        if self.judges is not None:
            await self.judges.wait()
        return f"the verdict of {page['id']}"

    async def close(self) -> None:
        type(self).closed += 1

    ended = False


@pytest.fixture
def client() -> Any:
    return type("Made", (SlowClient,), {})


@pytest.mark.parametrize("slow", ["opens", "judges"])
def test_no_verdict_comes_after_the_time_that_was_given(client: Any, slow: str) -> None:
    async def play() -> None:
        may_end = asyncio.Event()
        setattr(client, slow, may_end)
        judge = VerdictCaller(client)
        async with asyncio.timeout(60):
            with pytest.raises(VerdictLate, match=r"within 0\.0001 s"):
                await judge.judge({"id": "a"}, 0.0001)
        may_end.set()
        assert await judge.judge({"id": "a"}, 60.0) == "the verdict of a"
        await judge.close()

    asyncio.run(play())
    assert (client.opened, client.closed) == (1, 1), "who left early stopped nobody's opening"


def test_a_client_that_did_not_open_is_opened_again(client: Any) -> None:
    client.fails = BrokerUnreachable("no broker", "start it")

    async def play() -> None:
        judge = VerdictCaller(client)
        with pytest.raises(BrokerUnreachable):
            await judge.judge({"id": "a"}, 5.0)
        client.fails = None
        assert await judge.judge({"id": "b"}, 5.0) == "the verdict of b"
        await judge.close()

    asyncio.run(play())
    assert (client.opened, client.closed) == (1, 1)


def test_a_client_that_an_error_has_ended_is_replaced(client: Any) -> None:
    async def play() -> None:
        following: Any = type("Next", (SlowClient,), {})
        kinds = iter([client, following])
        judge = VerdictCaller(lambda: next(kinds)())
        assert await judge.judge({"id": "a"}, 5.0) == "the verdict of a"
        client.ended = True
        assert await judge.judge({"id": "b"}, 5.0) == "the verdict of b"
        await judge.close()
        assert (following.opened, following.closed) == (1, 1)

    asyncio.run(play())
    assert (client.opened, client.closed) == (1, 1)


def test_closing_while_the_client_opens_waits_for_nothing(client: Any) -> None:
    async def play() -> None:
        client.opens = asyncio.Event()
        judge = VerdictCaller(client)
        with pytest.raises(VerdictLate):
            await judge.judge({"id": "a"}, 0.01)
        async with asyncio.timeout(60):
            await judge.close()

    asyncio.run(play())


def test_a_whole_number_is_the_id_of_a_page_and_no_other_number_is() -> None:
    assert PageToJudge.model_validate_json('{"id": 7, "text": "x"}').id == 7
    for truth in ('"time": true', '"status": false'):
        with pytest.raises(ValidationError, match="not a truth value"):
            PageToJudge.model_validate_json(f'{{"id": 7, "text": "x", {truth}}}')
    assert PageToJudge.model_validate_json('{"id": 7, "text": "x", "status": "404"}').status == 404
    assert PageToJudge.model_validate_json('{"id": 7, "text": "x", "time": "1795000000000"}').time
    for wrong in ("7.5", "true", "[7]"):
        with pytest.raises(ValidationError):
            PageToJudge.model_validate_json(f'{{"id": {wrong}, "text": "x"}}')
