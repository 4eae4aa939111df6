"""Webhooks: which stories are told, what a receiver gets, and receivers of every bad kind, over loopback."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from simstream.errors import SettingsError
from simstream.feeds import webhook
from simstream.feeds.fold import FoldLimits
from simstream.feeds.records import PageSheet, place
from simstream.feeds.state import FeedState
from simstream.feeds.story_events import StoryEvent, StoryEvents
from simstream.feeds.webhook import WebhookLimits, WebhookSender, WebhookTarget, seconds_asked
from simstream.model import VerdictKind
from simstream.telemetry.news_metrics import WEBHOOK_RESULT, NewsMetrics
from tests.manual_clock import ManualClock
from tests.unit.test_feed_costs import TIME, verdict
from tests.unit.test_feed_syndication import STORIES, Page, add
from tests.waiting import soon

SECRET = "whsec_" + b64encode(bytes(range(32))).decode()
QUICK = WebhookLimits(answer_s=0.3, first_pause_s=0.05, longest_pause_s=0.1, give_up_s=1.0, look_s=0.01)
PATIENT = replace(QUICK, answer_s=60.0, give_up_s=60.0)
LASTING = replace(QUICK, give_up_s=4.0)


def started(*pages: Page, updates: bool = False) -> tuple[Any, Any]:
    """A feed that began with these pages, and was up to date with them, if there are any; and its events."""
    feed = FeedState(FoldLimits())
    table: dict[str, bytes] = {}
    feed.begin(table)
    feed.name = "log.news"
    add(feed, *pages)
    if pages:
        feed.fold.note_up_to_date()
    feed.begin(table)
    events = StoryEvents(feed, updates)
    asyncio.run(feed.settle())
    return feed, events


def told(events: StoryEvents) -> list[tuple[str, str]]:
    """Kind and title of the events that there are."""
    bodies = [json.loads(event.body) for event in events.take()]
    return sorted((body["type"], body["data"]["title"]) for body in bodies)


def test_a_new_story_is_told_once_and_what_was_there_before_never() -> None:
    feed, events = started(*STORIES)
    assert told(events) == []
    add(feed, ("https://n.example/1", "Brand new", 3), ("https://n.example/2", "Bridge again", 1))
    assert told(events) == [("story.created", "Brand new")]
    add(feed, ("https://m.example/2", "Brand new too", 3))
    assert told(events) == []


def test_new_versions_are_told_if_asked_and_a_version_that_only_came_again_is_not() -> None:
    feed, events = started(*STORIES, updates=True)
    add(feed, ("https://n.example/1", "Bridge again", 1), ("https://n.example/2", "New", 4))
    assert told(events) == [("story.created", "New"), ("story.updated", "Bridge opened")]
    feed.fold.give_up_title("0/0")
    assert told(events) == []


def test_events_have_the_same_id_after_a_restart_from_an_older_table() -> None:
    ids = []
    for _ in range(2):
        feed, events = started(*STORIES, updates=True)
        add(feed, ("https://n.example/1", "New", 3), ("https://n.example/2", "Bridge", 1))
        ids.append(sorted(event.id for event in list(events.take())))
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2


def test_on_its_first_start_nothing_is_told_until_the_feed_is_up_to_date() -> None:
    feed, events = started()
    add(feed, *STORIES)
    assert told(events) == []
    feed.condition.hear({})
    assert feed.condition.state == "ready"
    assert told(events) == []
    add(feed, ("https://n.example/1", "New", 3))
    assert told(events) == [("story.created", "New")]


def test_a_restart_before_the_feed_was_ever_up_to_date_tells_no_old_story() -> None:
    feed, table = FeedState(FoldLimits()), dict[str, bytes]()
    feed.begin(table)
    add(feed, *STORIES)
    feed.begin(table)
    events = StoryEvents(feed, updates=True)
    asyncio.run(feed.settle())
    add(feed, ("https://n.example/1", "Old, but not read yet", 3))
    assert feed.condition.state == "loading"
    assert told(events) == []
    feed.condition.hear({})
    assert told(events) == []
    add(feed, ("https://n.example/2", "New", 4))
    assert told(events) == [("story.created", "New")]


def test_a_feed_that_comes_back_tells_what_came_while_it_was_away() -> None:
    feed, events = started(*STORIES)
    assert feed.condition.state == "loading"
    add(feed, ("https://n.example/1", "Missed", 3))
    assert told(events) == [("story.created", "Missed")]


def test_a_story_waits_for_the_record_of_its_first_page_and_a_list_is_never_told() -> None:
    feed, events = started(*STORIES)
    for number in (7, 8, 9):
        feed.fold.apply(verdict(number, number))
    assert told(events) == []
    feed.fold.read(place(0, 7), PageSheet("Home page", TIME, is_list=True))
    feed.fold.read(place(0, 8), PageSheet("Titled", TIME))
    assert told(events) == [("story.created", "Titled")]
    feed.fold.give_up_title(place(0, 9))
    assert told(events) == [("story.created", "https://s9.example/9")]
    assert told(events) == []


def test_an_update_waits_for_a_title_too_if_the_only_page_left_has_none() -> None:
    feed, events = started(*STORIES, updates=True)
    feed.fold.apply(verdict(7, 7))
    feed.fold.read(place(0, 7), PageSheet("First", TIME))
    assert told(events) == [("story.created", "First")]
    feed.fold.apply(verdict(8, 7))
    first = next(name for name, version in feed.fold.versions.items() if version.ordinal == 7)
    feed.fold.apply(msgspec.structs.replace(verdict(9, 9), id=first, verdict=VerdictKind.WITHDRAWN))
    assert told(events) == []
    feed.fold.apply(verdict(10, 7))
    feed.fold.read(place(0, 10), PageSheet("Third", TIME))
    assert told(events) == [("story.updated", "Third")]
    feed.fold.read(place(0, 8), PageSheet("Second", TIME))
    assert told(events) == []


def test_a_story_that_waits_for_its_record_while_the_feed_begins_again_is_told() -> None:
    feed, events = started(*STORIES)
    feed.fold.apply(verdict(7, 7))
    assert told(events) == []
    feed.begin(feed.fold._table)
    asyncio.run(feed.settle())
    assert told(events) == []
    feed.fold.read(place(0, 7), PageSheet("Titled", TIME))
    assert told(events) == [("story.created", "Titled")]


def test_many_changed_stories_are_told_in_slices_and_forgotten_once_they_leave() -> None:
    feed, events = started(*STORIES)
    add(feed, *((f"https://s{n}.example/", f"t{n}", n) for n in range(3, 1103)))
    count, largest = 0, 0
    while (some := list(events.take())) or events.has_more:
        count, largest = count + len(some), max(largest, len(some))
    assert (count, largest) == (1100, 256)
    assert len(events._told) == 1102
    feed.fold.apply(verdict(5000, 5000, ahead=10 * 86_400_000))
    asyncio.run(feed.settle())
    assert list(events.take()) == []  # the story waits for its title
    assert events._told == {}


def test_the_signature_is_that_of_the_example_of_standard_webhooks() -> None:
    target = WebhookTarget("https://a.example/", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    event = StoryEvent("msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}')
    signature = target.headers(event, 1614265330)["webhook-signature"]
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", ["", "whsec_", "secret", "whsec_" + "A" * 28, "whsec_" + "A" * 400])
def test_a_secret_that_is_missing_or_weak_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(SettingsError, match="SIMSTREAM_WEBHOOK_SECRET") as error:
        WebhookTarget("https://a.example/", secret)
    assert len(secret) < 8 or secret not in str(error.value)


@pytest.mark.parametrize("url", ["", "a.example", "ftp://a.example", "https://", "https://[x", "https://a:99999/"])
def test_an_address_that_is_not_one_of_the_web_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="--webhook"):
        WebhookTarget(url, SECRET)


class Few:
    """So many events, once."""

    has_more = False

    def __init__(self, count: int) -> None:
        self._events = [StoryEvent(f"id{number}", b'{"n":%d}' % number) for number in range(count)]

    def take(self) -> list[StoryEvent]:
        events, self._events = self._events, []
        return events


class Receiver:
    """A receiver of webhooks. `answer` makes its answers; every request's signature is checked."""

    def __init__(self, answer: Callable[[web.Request, int], Awaitable[web.StreamResponse]]) -> None:
        self.requests: list[tuple[str, int]] = []
        self._answer = answer

    async def take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        name, timestamp = request.headers["webhook-id"], request.headers["webhook-timestamp"]
        key = b64decode(SECRET.removeprefix("whsec_"))
        wanted = hmac.new(key, f"{name}.{timestamp}.{body.decode()}".encode(), "sha256").digest()
        version, _, signature = request.headers["webhook-signature"].partition(",")
        assert (version, b64decode(signature)) == ("v1", wanted)
        assert abs(time.time() - int(timestamp)) < 30
        assert request.content_type == "application/json"
        self.requests.append((name, int(timestamp)))
        return await self._answer(request, len(self.requests))

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_post("/hook", self.take)
        async with TestServer(app) as server:
            yield str(server.make_url("/hook"))


def counts(metrics: NewsMetrics) -> dict[str, int]:
    """How the webhooks ended."""
    found = {result: int(metrics.webhooks.labels(result)._value.get()) for result in WEBHOOK_RESULT.values}
    return {result: count for result, count in found.items() if count}


async def send(url: str, count: int = 1, limits: WebhookLimits = PATIENT) -> NewsMetrics:
    """Send so many events, and wait until each was delivered or dropped."""
    metrics = NewsMetrics()
    events: Any = Few(count)
    sending = asyncio.ensure_future(WebhookSender(WebhookTarget(url, SECRET), events, metrics, limits).run())
    await soon(lambda: sum(counts(metrics).values()) >= count or sending.done(), "all have ended", 120)
    sending.cancel()
    await asyncio.wait([sending])
    assert sending.cancelled(), sending.exception()
    return metrics


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the news page warned of."""
    found = [one for one in caplog.records if (one.name, one.levelname) == ("simstream.news", "WARNING")]
    return [one.getMessage() for one in found]


async def fine(request: web.Request, number: int) -> web.StreamResponse:
    return web.Response(status=204)


async def broken_twice(request: web.Request, number: int) -> web.StreamResponse:
    return web.Response(status=(500, 429, 200)[min(number, 3) - 1])


async def early_twice(request: web.Request, number: int) -> web.StreamResponse:
    return web.Response(status=(425, 408, 200)[min(number, 3) - 1])


async def broken(request: web.Request, number: int) -> web.StreamResponse:
    return web.Response(status=503)


async def moved(request: web.Request, number: int) -> web.StreamResponse:
    return web.Response(status=307, headers={"Location": "/hook"})


async def unknown(request: web.Request, number: int) -> web.StreamResponse:
    return web.Response(status=404)


async def slow(request: web.Request, number: int) -> web.StreamResponse:
    await asyncio.sleep(0.6)
    return web.Response()


async def endless(request: web.Request, number: int) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b"x" * 65536)


async def many_headers(request: web.Request, number: int) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.write(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000)
    await asyncio.sleep(0.1)
    return web.Response()


@pytest.mark.parametrize(
    ("answer", "result", "requests"),
    [
        (fine, "delivered", (1, 1)),
        (broken_twice, "delivered", (3, 3)),
        (early_twice, "delivered", (3, 3)),
        (endless, "delivered", (1, 1)),
        (moved, "refused", (1, 1)),
        (unknown, "refused", (1, 1)),
        (broken, "expired", (2, 160)),
        (slow, "expired", (2, 20)),
        (many_headers, "expired", (2, 160)),
    ],
)
def test_a_receiver_of_every_kind_gets_a_bounded_number_of_signed_requests(
    answer: Callable[..., Awaitable[web.StreamResponse]],
    result: str,
    requests: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # proxies of the environment are not asked
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    async def run() -> None:
        receiver = Receiver(answer)
        async with receiver.listen() as url:
            metrics = await send(url, 1, LASTING if result == "expired" else PATIENT)
        assert counts(metrics) == {result: 1}
        assert requests[0] <= len(receiver.requests) <= requests[1]
        assert {name for name, _ in receiver.requests} == {"id0"}
        assert int(metrics.webhook_retries._value.get()) >= len(receiver.requests) - 1

    asyncio.run(run())


def test_events_that_the_receiver_cannot_digest_hold_up_no_others() -> None:
    async def picky(request: web.Request, number: int) -> web.StreamResponse:
        return web.Response(status=500 if request.headers["webhook-id"] in ("id0", "id1", "id2", "id3") else 204)

    async def run() -> None:
        async with Receiver(picky).listen() as url:
            metrics = NewsMetrics()
            events: Any = Few(10)
            sending = asyncio.ensure_future(
                WebhookSender(WebhookTarget(url, SECRET), events, metrics, LASTING).run()
            )
            await soon(lambda: counts(metrics).get("delivered", 0) == 6, "the other six arrive")
            assert counts(metrics) == {"delivered": 6}
            sending.cancel()
            await asyncio.wait([sending])

    asyncio.run(run())


def test_a_receiver_that_takes_nothing_is_asked_no_more_often_for_many_events_than_for_few() -> None:
    asked = 0

    async def down(request: web.Request, number: int) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return web.Response(status=503)

    async def run() -> None:
        async with Receiver(down).listen() as url:
            metrics = await send(url, 200, replace(QUICK, give_up_s=2.0))
        assert counts(metrics) == {"expired": 200}

    asyncio.run(run())
    assert asked < 2 * 200, "each is asked once at the end of its time, and few before"


@pytest.mark.parametrize("status", [429, 503])
def test_a_receiver_that_asks_for_a_pause_gets_no_request_before_its_end(status: int) -> None:
    came: list[float] = []

    async def tired(request: web.Request, number: int) -> web.StreamResponse:
        came.append(time.monotonic())
        return web.Response(status=status, headers={"Retry-After": "1"}) if number == 1 else web.Response()

    async def run() -> None:
        async with Receiver(tired).listen() as url:
            metrics = await send(url, 3, replace(PATIENT, at_once=1))
        assert counts(metrics) == {"delivered": 3}

    asyncio.run(run())
    assert len(came) == 4
    assert came[1] - came[0] >= 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 60),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 60),
        ("Sun Nov  6 08:49:37 1994", 60),
        ("Sun, 06 Nov 1994 09:49:37 +0100", 60),
        ("Sun, 06 Nov 1994 08:48:00 GMT", 0),
        ("Sun, 06 Nov 19941994 08:49:37 GMT", 0),
        ("Sun, 99 Foo 1994 08:49:37 GMT", 0),
        ("-5", 0),
        ("1e9", 0),
        ("soon", 0),
        ("9" * 8_000, 0),
        ("", 0),
    ],
)
def test_a_receiver_asks_for_a_pause_by_seconds_or_by_a_date(value: str, seconds: float) -> None:
    assert seconds_asked(value, now=784_111_717.0) == seconds


def test_a_dead_receiver_costs_each_story_its_time_and_two_log_lines(
    deaf_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = asyncio.run(send(f"http://user:password@127.0.0.1:{deaf_port}/hook", 3, QUICK))
    assert counts(metrics) == {"expired": 3}
    waiting, dropped = warnings(caplog)
    assert waiting.startswith("webhooks for 127.0.0.1 wait: it cannot be reached")
    assert dropped.startswith("webhooks for 127.0.0.1 are dropped (expired), such as id")
    assert "password" not in waiting + dropped


def test_webhooks_that_wait_are_counted_and_their_loss_is_told_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        receiver = Receiver(broken)
        async with receiver.listen() as url:
            metrics = NewsMetrics()
            events: Any = Few(7)
            patient = replace(QUICK, give_up_s=600.0)
            sender = WebhookSender(WebhookTarget(url, SECRET), events, metrics, patient)
            sending = asyncio.ensure_future(sender.run())
            await soon(lambda: len(receiver.requests) >= 5, "it is asked again")
            assert b"simstream_webhooks_waiting 7.0" in metrics.text()
            sending.cancel()
            await asyncio.wait([sending])

    asyncio.run(run())
    waiting, lost = warnings(caplog)
    assert waiting == "webhooks for 127.0.0.1 wait: it answers 503; each is tried for 10 minutes"
    assert lost.startswith("webhooks for 127.0.0.1 still waited and may be lost (7)")


def test_a_receiver_that_fails_now_and_then_costs_few_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def now_and_then(request: web.Request, number: int) -> web.StreamResponse:
        return web.Response(status=(204, 503, 400)[number % 3])

    async def run() -> None:
        async with Receiver(now_and_then).listen() as url:
            metrics = await send(url, 60)
        assert b"simstream_webhooks_waiting 0.0" in metrics.text()

    asyncio.run(run())
    assert sorted(line.split(": ")[0].split(",")[0] for line in warnings(caplog)) == [
        "webhooks for 127.0.0.1 are dropped (refused)",
        "webhooks for 127.0.0.1 wait",
    ]


def test_each_reason_to_warn_is_told_again_after_five_minutes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    began = clock.now
    monkeypatch.setattr(webhook, "time", clock)
    nothing: Any = Few(0)
    sender = WebhookSender(WebhookTarget("https://a.example/", SECRET), nothing, NewsMetrics())
    for seconds, lines in ((0, 2), (299, 2), (301, 4), (302, 4)):
        clock.now = began + seconds
        for result in ("refused", "expired"):
            sender._drop(result, "why", StoryEvent("id", b""))
        assert len(warnings(caplog)) == lines


def test_a_receiver_cannot_silence_webhooks_for_longer_than_each_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(*_: object) -> tuple[int, str, float]:
        return 503, "it answers 503", 999_999_999.0

    clock = ManualClock()
    monkeypatch.setattr(webhook, "time", clock)
    nothing: Any = Few(0)
    sender = WebhookSender(WebhookTarget("https://a.example/", SECRET), nothing, NewsMetrics(), QUICK)
    monkeypatch.setattr(sender, "_ask", ask)
    waiting = webhook._WaitingEvent(StoryEvent("id", b""), clock.now, clock.now, 1.0)
    asyncio.run(sender._send(nothing, 0, waiting))
    assert sender._rests_until == clock.now + QUICK.give_up_s


def test_a_receiver_that_refuses_a_signature_may_mean_the_clock(caplog: pytest.LogCaptureFixture) -> None:
    async def unverified(request: web.Request, number: int) -> web.StreamResponse:
        return web.Response(status=401)

    async def run() -> None:
        async with Receiver(unverified).listen() as url:
            await send(url, 1)

    asyncio.run(run())
    [line] = warnings(caplog)
    assert re.search(
        r"it answers 401: check SIMSTREAM_WEBHOOK_SECRET, and the clock of this machine, .* UTC$", line
    )


def test_the_log_says_where_webhooks_go_and_when_they_arrive_again(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with Receiver(broken_twice).listen() as url:
            await send(url, 3)

    caplog.set_level("INFO", logger="simstream.news")
    asyncio.run(run())
    told = [one.getMessage() for one in caplog.records if one.name == "simstream.news"]
    assert told[0] == "webhooks go to 127.0.0.1"
    assert told[1].startswith("webhooks for 127.0.0.1 wait: it answers 500")
    assert told[2:] == ["webhooks for 127.0.0.1 arrive again"]


def test_webhooks_that_are_refused_are_told_also_while_others_find_no_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def moved(request: web.Request, number: int) -> web.StreamResponse:
        return web.Response(status=302)

    async def run() -> None:
        async with Receiver(moved).listen() as url:
            metrics = await send(url, 50, replace(PATIENT, most_waiting=20))
        assert counts(metrics) == {"refused": 20, "overflow": 30}

    asyncio.run(run())
    assert sorted(line.split(",")[0] for line in warnings(caplog)) == [
        "webhooks for 127.0.0.1 are dropped (overflow)",
        "webhooks for 127.0.0.1 are dropped (refused)",
    ]


def test_the_oldest_stories_make_room_if_too_many_wait() -> None:
    async def run() -> None:
        receiver = Receiver(fine)
        async with receiver.listen() as url:
            metrics = await send(url, 50, replace(PATIENT, most_waiting=20))
        assert counts(metrics) == {"delivered": 20, "overflow": 30}
        assert {name for name, _ in receiver.requests} == {f"id{number}" for number in range(30, 50)}
        assert b'simstream_webhooks_total{result="overflow"} 30.0' in metrics.text()

    asyncio.run(run())


def begun_again(feed: FeedState) -> tuple[FeedState, StoryEvents]:
    """Return the news page and its events as a new process makes them from the same table."""
    table, again = dict(feed.fold._table), FeedState(FoldLimits())
    again.name = feed.name
    events = StoryEvents(again, False)
    again.begin(table)
    asyncio.run(again.settle())
    return again, events


def test_a_told_story_whose_page_came_again_just_before_a_restart_is_not_told_again() -> None:
    feed, events = started(*STORIES)
    feed.fold.apply(verdict(7, 7))
    feed.fold.read(place(0, 7), PageSheet("Titled", TIME))
    assert told(events) != []
    page_id = next(name for name, version in feed.fold.versions.items() if version.ordinal == 7)
    feed.fold.apply(msgspec.structs.replace(verdict(8, 7), id=page_id))
    feed, events = begun_again(feed)
    feed.fold.read(place(0, 8), PageSheet("Titled", TIME))
    assert told(events) == []


def test_a_story_whose_second_page_was_read_first_is_told_after_a_restart() -> None:
    feed, events = started(*STORIES)
    feed.fold.apply(verdict(7, 7))
    feed.fold.apply(verdict(8, 7))
    feed.fold.read(place(0, 8), PageSheet("Second", TIME))
    assert told(events) == []
    feed, events = begun_again(feed)
    feed.fold.read(place(0, 7), PageSheet("First", TIME))
    assert told(events) != []
