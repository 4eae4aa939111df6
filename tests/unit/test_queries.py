"""Turns that nobody waits long for, bounds of what clients may send, and the API's description."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import MutableMapping
from typing import Any

from simstream.model import Verdict
from simstream.queries.app import make_app
from simstream.queries.limits import BodyLimiter, QueryLimits
from simstream.roles.turn_lock import TurnLock


def test_turns_exclude_each_other() -> None:
    turns, inside, most = TurnLock(), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(200):
            with turns():
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_one_that_waits_comes_next_however_often_another_takes_a_turn() -> None:
    turns, stop, taken, waits = TurnLock(), threading.Event(), 0, threading.Event()

    def greedy() -> None:
        nonlocal taken
        while not stop.is_set():
            with turns():
                taken += 1
                waits.wait(0.001)

    thread = threading.Thread(target=greedy)
    thread.start()
    between = []
    for _ in range(20):
        before = taken
        with turns():
            between.append(taken - before)
    stop.set()
    thread.join()
    assert sorted(between)[len(between) // 2] <= 3  # it was under way, and may have begun once more before we asked


def test_a_loop_that_comes_ahead_waits_for_eight_of_forty_and_lets_eight_others_in() -> None:
    turns, stop, taken, waits = TurnLock(), threading.Event(), [0] * 40, threading.Event()

    def ask(number: int) -> None:
        while not stop.is_set():
            with turns():
                taken[number] += 1
                waits.wait(0.0005)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(taken))]
    for thread in threads:
        thread.start()
    between = []
    for _ in range(100):
        before = sum(taken)
        with turns(ahead=True):
            between.append(sum(taken) - before)
        waits.wait(0.002)  # what it does without the state
    stop.set()
    for thread in threads:
        thread.join()
    assert 7 <= sorted(between)[len(between) // 2] <= 10
    assert all(taken)


def test_a_body_that_is_too_large_or_too_slow_never_reaches_the_application() -> None:
    seen: list[bytes] = []

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        seen.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def asked(parts: list[bytes], ends: bool = True) -> int:
        left = list(parts)
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            if not left:
                await asyncio.sleep(60)
            part = left.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(left) or not ends}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        limits = QueryLimits(other_body=10, body_s=0.05)
        scope = {"type": "http", "path": "/", "headers": [(b"content-type", b"application/json; charset=utf-8")]}
        await BodyLimiter(app, limits)(scope, receive, send)
        return int(sent[0]["status"])

    assert asyncio.run(asked([b"12345", b"67890"])) == 200
    assert seen == [b"1234567890"]
    assert asyncio.run(asked([b"12345", b"678901"])) == 413
    assert asyncio.run(asked([b"12345"], ends=False)) == 408
    assert len(seen) == 1


def test_the_description_defines_every_type_that_it_names() -> None:
    role: Any = None
    description = make_app(role, role, role, role, role).openapi()
    types = description["components"]["schemas"]
    named = re.findall(r'"\$ref": "([^"]*)"', json.dumps(description))
    assert {name.removeprefix("#/components/schemas/") for name in named} <= types.keys()
    assert tuple(types["VerdictAnswer"]["properties"]) == Verdict.__struct_fields__


def test_all_routes_are_described_under_one_heading() -> None:
    role: Any = None
    paths = make_app(role, role, role, role, role).openapi()["paths"]
    assert {tuple(route["tags"]) for path in paths.values() for route in path.values()} == {("questions",)}


def test_generated_clients_name_their_functions_after_the_questions() -> None:
    role: Any = None
    paths = make_app(role, role, role, role, role).openapi()["paths"]
    names = {operation["operationId"] for operations in paths.values() for operation in operations.values()}
    assert names == {"ready", "match", "match_fingerprints", "page", "cluster", "tokens", "judge_page"}
