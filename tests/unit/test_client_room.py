"""Room for pages on their way, and which verdict belongs to which of them."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np
import pytest

from simstream.client.pages import RawPage, sendable
from simstream.client.pending import MAX_EARLY_VERDICTS, PendingPage, PendingPages
from simstream.client.room import PageRoom, RoomPlace
from simstream.client.sending import Sender
from simstream.errors import BrokerUnreachable, ClientClosed, DeliveryFailed, LogError, UsageError, VerdictLate
from simstream.model import PageSource, Record, Verdict
from simstream.processors import call_in_daemon
from simstream.wire import verdict as wire
from simstream.wire.page import PageLimits, decode

TOPIC = "simstream.pages"


def entry(name: str = "a", seconds: float = 60.0) -> PendingPage:
    return PendingPage(
        sendable({"id": name, "text": "…"}), time.monotonic() + seconds, PageRoom(1).enter(RoomPlace())
    )


def verdict(offset: int, name: str = "a", topic: str = TOPIC) -> Record:
    kind = Verdict(
        name,
        None,
        "new",
        None,
        None,
        None,
        None,
        "1",
        name,
        (),
        "0" * 16,
        "0" * 8,
        1,
        1,
        PageSource(topic, 0, offset),
    )
    return Record("simstream.verdicts", 0, 7, name.encode(), wire.encode(kind))


class HeldPages:
    """Pages on their way, and how many have given their room back."""

    def __init__(self) -> None:
        self.left = 0
        self.pending = PendingPages(TOPIC, self._leave)

    def _leave(self, _: RoomPlace) -> None:
        self.left += 1


FORGED = b'{"url":"https://victim.example/","title":"x","text":"of a stranger","time":1,"status":410}'


@pytest.mark.parametrize("registry", [False, True])
@pytest.mark.parametrize("media", ["application/json", " application/JSON; charset=utf-8", "application/avro"])
def test_a_servers_json_is_no_page_with_fields_of_ours(media: str, registry: bool) -> None:
    limits = PageLimits(read=json.loads if registry else None)
    for status, reason in ((None, "bad_content_type"), (200, "bad_content_type"), (404, "http_status")):
        sent = sendable(RawPage("https://a.example/1", FORGED, media, time=7, status=status))
        page = decode(Record(TOPIC, 0, 0, sent.key, sent.value, sent.headers, 99), limits)
        assert (page.id, page.url, page.time, page.reason) == ("https://a.example/1",) * 2 + (7, reason)


@pytest.mark.parametrize("media", ["", " ", "; charset=gbk"])
def test_a_raw_page_of_a_blank_type_is_html(media: str) -> None:
    sent = sendable(RawPage("https://a.example/1", FORGED, media))
    page = decode(Record(TOPIC, 0, 0, sent.key, sent.value, sent.headers), PageLimits())
    assert (page.url, page.raw, page.content_type) == ("https://a.example/1", FORGED, "text/html")


def is_given(place: RoomPlace) -> bool:
    return place.is_held and place.given is not None and place.given.done()


def test_a_caller_without_room_waits_in_line_and_may_give_up() -> None:
    room = PageRoom(1)
    first, second, third, fourth = (room.enter(RoomPlace()) for _ in range(4))
    assert (first.is_held, first.given) == (True, None)
    room.withdraw(third)
    for _ in range(2):  # a place goes back once
        room.leave(first)
        assert is_given(second)
        assert not is_given(fourth)
    room.leave(second)
    assert is_given(fourth)
    room.withdraw(fourth)  # it was given a place in the meantime: that is free again
    assert room.enter(RoomPlace()).is_held


def test_a_place_that_was_cancelled_goes_to_the_next() -> None:
    room = PageRoom(1)
    first, second, third = (room.enter(RoomPlace()) for _ in range(3))
    assert second.given is not None
    second.given.cancel()
    room.leave(first)
    assert is_given(third)


def test_closing_tells_those_in_line() -> None:
    room = PageRoom(1)
    first, waiting = room.enter(RoomPlace()), room.enter(RoomPlace())
    assert first.is_held
    assert waiting.given is not None
    room.close(ClientClosed("closed"))
    for call in (partial(waiting.given.result, 0), partial(room.enter, RoomPlace())):
        with pytest.raises(ClientClosed):
            call()


def test_a_verdict_ends_the_page_of_its_place_not_another_of_its_id() -> None:
    held = HeldPages()
    pages = [entry(), entry()]
    for offset, page in enumerate(pages):
        held.pending.add(page)
        held.pending.note_written(page, 0, 10 + offset)
    held.pending.take_verdict(verdict(9))
    held.pending.take_verdict(verdict(11, topic="other.pages"))
    assert not pages[0].future.done()
    assert not pages[1].future.done()
    held.pending.take_verdict(verdict(11))
    assert not pages[0].future.done()
    assert pages[1].future.result(0).source.offset == 11
    assert (held.left, len(held.pending)) == (1, 1)


def test_a_verdict_that_comes_before_the_acknowledgement_is_kept_for_its_page() -> None:
    held, page = HeldPages(), entry()
    held.pending.add(page)
    for offset in (4, 5, 6):
        held.pending.take_verdict(verdict(offset))
    assert not page.future.done()
    held.pending.note_written(page, 0, 5)
    assert page.future.result(0).source.offset == 5
    assert (held.left, len(held.pending)) == (1, 0)


def test_early_verdicts_wait_until_all_pages_of_their_id_are_acknowledged() -> None:
    held, pages = HeldPages(), [entry(), entry()]
    for page in pages:
        held.pending.add(page)
    for offset in (4, 5):
        held.pending.take_verdict(verdict(offset))
    for offset, page in enumerate(pages, 4):
        held.pending.note_written(page, 0, offset)
        assert page.future.result(0).source.offset == offset


def test_the_last_of_many_early_verdicts_of_one_id_are_kept() -> None:
    held, pages = HeldPages(), [entry(), entry()]
    for page in pages:
        held.pending.add(page)
    for offset in range(MAX_EARLY_VERDICTS + 1):
        held.pending.take_verdict(verdict(offset))
    for offset, page in enumerate(pages):
        held.pending.note_written(page, 0, offset)
    assert [page.future.done() for page in pages] == [False, True]


def test_a_page_that_was_given_up_makes_room_once_though_it_is_acknowledged_later() -> None:
    held, page = HeldPages(), entry()
    held.pending.add(page)
    held.pending.fail(page, DeliveryFailed("no"))
    held.pending.note_written(page, 0, 5)
    assert held.left == 1


def test_room_is_free_once_the_future_is_done_and_the_page_is_written() -> None:
    held, page = HeldPages(), entry(seconds=-1.0)
    held.pending.add(page)
    held.pending.expire()
    with pytest.raises(VerdictLate):
        page.future.result(0)
    assert held.left == 0  # the record still waits to be written
    held.pending.note_written(page, 0, 5)
    held.pending.take_verdict(verdict(5))
    held.pending.fail(page, DeliveryFailed("late news"))
    assert held.left == 1


def test_a_page_without_a_known_place_in_the_topic_ends_with_an_error() -> None:
    held = HeldPages()
    pages = [entry(), entry("b")]
    for page in pages:
        held.pending.add(page)
    held.pending.fail(pages[0], DeliveryFailed("no"))
    held.pending.note_written(pages[1], 0, -1)
    for page in pages:
        with pytest.raises(DeliveryFailed):
            page.future.result(0)
    assert held.left == 2


def test_a_cancelled_future_is_left_alone_and_its_room_comes_back() -> None:
    held, page = HeldPages(), entry()
    held.pending.add(page)
    held.pending.note_written(page, 0, 5)
    page.future.cancel()
    held.pending.take_verdict(verdict(5))
    assert page.future.cancelled()
    assert held.left == 1


def test_a_callback_that_ends_its_thread_ends_no_thread_of_the_client(caplog: pytest.LogCaptureFixture) -> None:
    def leave(_: object) -> None:
        raise SystemExit(3)

    held, page = HeldPages(), entry()
    page.future.add_done_callback(leave)
    held.pending.add(page)
    held.pending.fail(page, ClientClosed("closed", "open it"))
    assert isinstance(page.future.exception(), ClientClosed)
    assert "a callback of a page's future failed" in caplog.text


def test_closing_ends_every_future_and_lets_nobody_in() -> None:
    held, page = HeldPages(), entry()
    held.pending.add(page)
    held.pending.close(ClientClosed("closed"))
    with pytest.raises(ClientClosed):
        page.future.result(0)
    with pytest.raises(ClientClosed):
        held.pending.add(entry())


class InterruptedLock:
    """A lock that is interrupted once by `handler`, as by a signal's, while it is held."""

    def __init__(self, lock: Any, handler: Callable[[], None]) -> None:
        self._lock = lock
        self._handlers = [handler]

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._handlers:
            self._handlers.pop()()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def ends(call: Callable[[], object]) -> None:
    """Call it in a thread, which this process does not wait for at its end."""
    call_in_daemon(call, "test").result(60)


def test_a_signals_handler_may_close_the_pages_while_one_is_added() -> None:
    held, page, earlier = HeldPages(), entry(), entry()
    held.pending.add(earlier)
    close = partial(held.pending.close, ClientClosed("closed"))
    held.pending._lock = InterruptedLock(held.pending._lock, close)  # type: ignore[assignment]
    with pytest.raises(ClientClosed):
        ends(lambda: held.pending.add(page))
    with pytest.raises(ClientClosed):
        earlier.future.result(0)


def test_a_signals_handler_may_close_the_room_while_a_caller_gets_into_line() -> None:
    room = PageRoom(1)
    close = partial(room.close, ClientClosed("closed"))
    room._lock = InterruptedLock(room._lock, close)  # type: ignore[assignment]
    with pytest.raises(ClientClosed):
        ends(partial(room.enter, RoomPlace()))


class InterruptedEntries(list[PendingPage]):
    """Calls `handler`, as a signal's handler, when a page has been taken out."""

    handler: Callable[[], None]

    def remove(self, page: PendingPage) -> None:
        super().remove(page)
        self.handler()


@pytest.mark.parametrize("call", [PendingPages.add, PageRoom.enter])
def test_no_signals_handler_interrupts_a_caller_that_holds_the_lock(call: Callable[..., object]) -> None:
    """CPython runs handlers after calls and loops. A `close` there would wait for threads that need the lock."""
    code = ast.parse(textwrap.dedent(inspect.getsource(call)))
    locked = next(node for node in ast.walk(code) if isinstance(node, ast.With))
    within = [part for line in locked.body for part in ast.walk(line)]
    assert not [part for part in within if isinstance(part, ast.Call | ast.For | ast.While | ast.comprehension)]


def test_a_signals_handler_may_close_the_pages_that_are_being_closed() -> None:
    held, pages = HeldPages(), [entry(), entry(), entry("b")]
    for page in pages:
        held.pending.add(page)
    name = held.pending._names[b"a"]
    name.entries = entries = InterruptedEntries(name.entries)
    entries.handler = lambda: held.pending.close(ClientClosed("closed"))
    ends(lambda: held.pending.close(ClientClosed("closed")))
    assert all(isinstance(page.future.exception(0), ClientClosed) for page in pages)
    assert len(held.pending) == 0


def test_each_caller_gets_an_error_of_its_own() -> None:
    """One error for all would gather the traceback of every `result`, with the pages of its frames."""
    held, waiting = HeldPages(), [entry() for _ in range(3)]
    for one in waiting:
        held.pending.add(one)
    held.pending.close(ClientClosed("closed", "open it"))
    room = PageRoom(0)
    lines = [room.enter(RoomPlace()), room.enter(RoomPlace())]
    room.close(ClientClosed("closed", "open it"))
    futures: list[Future[Any]] = [one.future for one in waiting]
    futures += [line.given for line in lines if line.given is not None]
    depths = []
    for future in futures:
        with pytest.raises(ClientClosed, match="closed: open it") as caught:
            future.result(0)
        depths.append(len(traceback.extract_tb(caught.tb)))
    assert len({id(future.exception(0)) for future in futures}) == len(futures)
    assert len(set(depths)) == 1


def test_a_record_that_is_no_verdict_is_passed_over() -> None:
    held, page = HeldPages(), entry()
    held.pending.add(page)
    held.pending.take_verdict(Record("simstream.verdicts", 0, 7, b"a", b"{"))
    assert not page.future.done()


def test_a_page_is_keyed_by_its_id_else_by_its_url() -> None:
    assert sendable({"id": "a", "url": "b", "text": ""}).key == b"a"
    assert sendable({"id": "a", "text": "\ud83d cut"}).value == b'{"id": "a", "text": "\\ud83d cut"}'
    assert sendable({"url": "b", "text": ""}).key == b"b"
    assert sendable({"id": np.str_("a"), "text": np.str_("t")})[:2] == (b"a", b'{"id":"a","text":"t"}')
    assert [sendable({"id": number, "url": "b", "text": ""}).key for number in (7, 0)] == [b"7", b"0"]
    raw = sendable(RawPage("https://a.example/", b"<p>", "text/html; charset=gbk", time=5, status=404))
    assert raw.key == raw.verdict_key == b"https://a.example/"
    assert dict(raw.headers) == {
        "content-type": b"text/html; charset=gbk",
        "url": b"https://a.example/",
        "time": b"5",
        "status": b"404",
    }
    assert sendable({"id": "x" * 3000, "text": ""}).verdict_key.startswith(b"x" * 1024 + b"~")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ({"text": "…"}, "neither id nor URL"),
        ({"id": 1.5}, "id is a float"),
        ({"id": True}, "id is a bool"),
        ({"id": "a", "text": object()}, "cannot be written as JSON"),
        ({"id": "a", "text": b"JSON would hold Base64"}, "the field 'text' is bytes"),
        ("text", "a page is a str"),
        (RawPage("a", "a str"), "body is a str"),  # type: ignore[arg-type]
        (RawPage("a", None), "body is a NoneType"),  # type: ignore[arg-type]  # else it would withdraw the page
        (RawPage("a", b"x", None), "content_type is a NoneType"),  # type: ignore[arg-type]
        (RawPage(None, b"x"), "url is a NoneType"),  # type: ignore[arg-type]
        (RawPage("a", b"x", status="200"), "status is a str"),  # type: ignore[arg-type]
    ],
)
def test_a_page_that_cannot_be_sent_is_refused_by_name(page: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        sendable(page)  # type: ignore[arg-type]


def test_further_headers_come_behind_those_of_the_page() -> None:
    own = {"traceparent": "00-é", "tenant": b"\xff"}
    assert sendable({"id": "a", "text": ""}, own).headers == (("traceparent", "00-é".encode()), ("tenant", b"\xff"))
    assert [name for name, _ in sendable(RawPage("b", b""), own).headers] == ["content-type", "url", *own]


@pytest.mark.parametrize(
    "headers", [{"Content-Type": "x"}, {"url": b"x"}, {"a": 1}, {"a": None}, {1: "x"}, {"\ud800": "x"}]
)
def test_a_header_that_says_something_of_the_page_or_is_no_text_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="the header "):
        sendable({"id": "a", "text": ""}, headers)


class BrokenLog:
    """A log that takes no page any more: its appender fails, and no new one is to be had."""

    def __init__(self) -> None:
        self.asked = 0

    def open_appender(self, topic: str) -> Any:
        self.asked += 1
        raise BrokerUnreachable("no broker answers", "start it")

    def append(self, *_: object, **__: object) -> int:
        raise DeliveryFailed("no broker answers", "start it")

    def discard(self) -> None: ...


def test_pages_that_wait_behind_a_failed_one_fail_at_once() -> None:
    held, log = HeldPages(), BrokenLog()
    broken: Any = log
    sender = Sender(broken, broken, held.pending)
    entries = [entry(str(number)) for number in range(20)]
    for one in entries:
        held.pending.add(one)
        sender.put(one)
    sender.stop(60.0)
    sender.run()
    assert all(isinstance(one.future.exception(0), LogError) for one in entries)
    assert log.asked == 1


class SilentAppender:
    """Acknowledges nothing. While it is asked, another page comes, and the client is closed."""

    def __init__(self, sender: Callable[[], Sender], late: PendingPage) -> None:
        self.sender, self.late = sender, late
        self.is_asked = False

    def append(self, *_: object, **__: object) -> int:
        return 1

    def flush(self, _: float) -> int:
        assert not self.is_asked, "it goes on asking"
        self.is_asked = True
        self.sender().put(self.late)
        self.sender().stop(-1.0)
        return 0

    def discard(self) -> None: ...


def test_pages_that_nobody_acknowledges_fail_once_the_time_to_close_is_over() -> None:
    held, pages = HeldPages(), [entry("a"), entry("b")]
    log: Any = BrokenLog()
    appender: Any = SilentAppender(lambda: sender, pages[1])
    sender = Sender(log, appender, held.pending)
    for page in pages:
        held.pending.add(page)
    sender.put(pages[0])
    sender.run()
    assert all(isinstance(page.future.exception(0), ClientClosed) for page in pages)
    assert (held.left, log.asked) == (2, 0)
