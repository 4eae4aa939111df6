"""The news page as its reader meets it: a real broker, a real service, the app as a process, a real browser.

One of each serves all tests; every test tells stories of its own, some days after those of the one before.
"""

from __future__ import annotations

import base64
import hmac
import json
import random
import re
import secrets
import signal
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from deploy.kafka.broker import KafkaBroker
from deploy.server_process import freeze
from simstream.feeds.intake import NewsIntake
from simstream.log.base import Log
from simstream.log.options import PAGES, VERDICTS
from tests.e2e.browser import Browser, chromium
from tests.e2e.harness import Program, read_topic
from tests.e2e.pages import ENGLISH
from tests.kafka_fixtures import TopicPlace
from tests.waiting import until
from tests.web_server import LoopbackServer, serving

pytestmark = pytest.mark.kafka
HOUR, DAY = 3_600_000, 86_400_000
BEGINNING = 1_704_067_200_000  # 2024


class NewsFeedProgram:
    """Sends pages, and reads what the feed makes of them."""

    def __init__(self, program: Program, log: Log) -> None:
        self.program = program
        self.day = BEGINNING
        self._log = log
        self._running = ExitStack()

    def open_feed(self) -> None:
        """Start the feed, anew where it runs or ran, and wait until it is ready."""
        self.start_feed()
        self.news.ready()

    def start_feed(self, *arguments: str, **variables: str) -> None:
        """Start the feed, anew where it runs or ran."""
        self._running.close()
        self.news = self._running.enter_context(self.program.news("--window", "72h", *arguments, **variables))
        self.url = f"http://127.0.0.1:{self.news.port}/"

    def until_judged(self) -> None:
        """Wait until every page that was told has its verdict."""
        pages = len(read_topic(self._log, PAGES))
        until(lambda: len(read_topic(self._log, VERDICTS)) >= pages, "every page has a verdict")

    def close(self) -> None:
        """End it."""
        self._running.close()

    def next_days(self) -> int:
        """A time at which all that was told before has left the window."""
        self.day += 10 * DAY
        return self.day

    def tell(self, *pages: dict[str, Any]) -> None:
        """Append pages and wait until they are acknowledged."""
        with self._log.open_appender(PAGES) as appender:
            for page in pages:
                appender.append(json.dumps(page).encode(), (page.get("id") or page["url"]).encode(), ())
            appender.flush(60)

    def get(self, path: str, **query: Any) -> tuple[int, Any]:
        """Status and JSON of a request."""
        status, text = self.news.get(f"/{path}?{urllib.parse.urlencode(query)}")
        assert status, f"it did not answer: {text}\n{self.news.output}"
        return status, json.loads(text)

    def stories(self, **query: Any) -> list[dict[str, Any]]:
        """The stories that this asks for."""
        status, found = self.get("api/stories", **query)
        assert status == 200, found
        listed: list[dict[str, Any]] = found["stories"]
        return listed

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that the feed does."""
        self.news.until(condition, what)

    def titled(self, title: str, pages: int = 1) -> dict[str, Any]:
        """The story of this title, once it has so many pages."""

        def there() -> list[dict[str, Any]]:
            return [one for one in self.stories(per_page=200) if (one["title"], one["versions"]) == (title, pages)]

        self.until(lambda: len(there()) == 1, f"{title!r} has {pages} pages")
        return there()[0]


@pytest.fixture(scope="module")
def room(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[NewsFeedProgram]:
    place = TopicPlace(broker.address, f"t{secrets.token_hex(4)}")
    program = Program(tmp_path_factory.mktemp("news"), cache, place)
    with place.open() as log:
        log.create_topics(3)
        room = NewsFeedProgram(program, log)
        with program.serve(), closing(room):
            room.open_feed()
            yield room


@pytest.fixture(scope="module")
def browser(room: NewsFeedProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


def story(seed: int, count: int = 30) -> list[str]:
    """So many sentences that no other seed has."""
    rng = random.Random(seed)
    return [f"{' '.join(rng.choice(ENGLISH) for _ in range(9)).capitalize()}." for _ in range(count)]


def page(name: str, title: str, sentences: list[str], time: int, **more: Any) -> dict[str, Any]:
    return {"url": f"https://{name}", "title": title, "text": " ".join(sentences), "time": time} | more


def test_cards_appear_grow_and_merge_before_the_readers_eyes(room: NewsFeedProgram, browser: Browser) -> None:
    now, told = room.next_days(), story(1)
    browser.open(room.url)
    room.tell(page("a.example/1", "The first half of a story", told[:21], now))
    browser.sees(".card h2", "The first half of a story")
    first = room.titled("The first half of a story")
    room.tell(page("b.example/1", "Another half", told[9:], now + HOUR))
    browser.sees(".card h2", "The first half of a story", "Another half")
    second = room.titled("Another half")
    assert (first["versions"], first["sites"], first["growth"], second["site"]) == (1, 1, 1, "b.example")
    room.tell(page("c.example/1", "The whole of it", told, now + 2 * HOUR))
    merged = room.titled("The first half of a story", 3)
    assert merged["id"] == first["id"]
    assert (merged["newest_title"], merged["sites"]) == ("The whole of it", 3)
    assert (merged["first_seen"], merged["last_seen"]) == (now, now + 2 * HOUR)
    browser.until(lambda: "Another half" not in browser.texts(".card h2"), "one card is left of two")
    browser.sees(".latest", "Latest: The whole of it")
    browser.sees(".badge", "3 sites in 6 hours")
    assert room.get(f"api/stories/{second['id']}")[1]["id"] == first["id"]
    browser.click("button[data-language=zh]")
    browser.sees(".count", "3 个网站 · 3 篇")
    assert browser.run("return document.documentElement.lang") == "zh"
    browser.click("button[data-language=en]")
    browser.sees(".count", "3 sites · 3 pages")


def test_a_timeline_shows_similarities_and_two_versions_side_by_side(
    room: NewsFeedProgram, browser: Browser
) -> None:
    now, told = room.next_days(), story(2)
    changed = [*told[:10], "An orchard was sold to the harbour council for one lantern.", *told[11:]]
    room.tell(page("a.example/2", "Told once", told, now))
    room.titled("Told once")
    room.tell(page("b.example/2", "Told twice", changed, now + HOUR))
    card = room.titled("Told once", 2)
    _, whole = room.get(f"api/stories/{card['id']}")
    founder, other = whole["timeline"]
    assert (founder["founder"], founder["similarity"]) == (True, None)
    assert (other["near_duplicate_of"], other["verdict"]) == (founder["id"], "near_duplicate")
    assert 0.6 < other["similarity"] < 1
    browser.open(room.url)
    browser.sees(".card h2", "Told once")
    browser.click(".card h2 a", browser.texts(".card h2").index("Told once"))
    browser.sees(".step .title", "Told once", "Told twice")
    browser.sees(".alike", f"{round(100 * other['similarity'])} % like a.example")
    browser.run("document.querySelectorAll('.step button')[1].focus()")
    browser.click(".step button", 1)
    browser.until(lambda: len(browser.texts("#rows .b mark")) > 0, "differences are marked")
    assert browser.run("return document.activeElement.id") == "comparison-title"  # so the timeline stays live
    left, right = (" ".join(browser.texts(f"#rows .{side} mark")) for side in "ab")
    assert {"sold", "council", "one"} <= set(right.replace(".", "").split())
    assert set(left.replace(".", "").split()) <= set(told[10].replace(".", "").split())
    assert " ".join("".join(browser.texts("#rows .b")).split()) == " ".join(changed)
    browser.click(".back")
    browser.sees(".card h2", "Told once")
    assert room.get("api/compare", a=founder["id"], b="https://unknown.example/")[0] == 404


def test_a_story_of_very_many_pages_lists_the_founder_and_the_newest(
    room: NewsFeedProgram, browser: Browser
) -> None:
    now, told = room.next_days(), story(3)
    room.tell(page("founder.example/3", "Told first", told, now))
    room.titled("Told first")
    room.tell(*(page(f"s{number}.example/3", f"Copy {number}", told, now + number) for number in range(1, 504)))
    card = room.titled("Told first", 504)
    _, whole = room.get(f"api/stories/{card['id']}")
    assert (len(whole["timeline"]), whole["left_out"], card["sites"]) == (500, 4, 504)
    assert [one["title"] for one in whole["timeline"] if one["founder"]] == ["Told first"]
    browser.open(f"{room.url}#story/{card['id']}")
    browser.sees("#left-out", "Only the first page and the newest pages are listed; 4 between them are not.")


def test_a_hostile_title_does_nothing(room: NewsFeedProgram, browser: Browser) -> None:
    now = room.next_days()
    titles = [
        "<script>window.broken = 1</script>",
        '"><img src=x onerror="window.broken = 1">',
        "</h2><iframe src=https://other.example/>",
    ]
    browser.open(room.url)
    for number, title in enumerate(titles):
        room.tell(page(f"evil.example/{number}", title, story(10 + number), now + number))
    bad = {"id": "evil-link", "url": "javascript:window.broken=1", "title": "{{7*7}} ${7*7}"}
    room.tell(page("x", "", story(20), now) | bad)
    browser.sees(".card h2", *titles, "{{7*7}} ${7*7}")
    browser.click(".card h2 a", browser.texts(".card h2").index("{{7*7}} ${7*7}"))
    browser.sees(".step .title", "{{7*7}} ${7*7}")
    assert browser.run("return document.querySelectorAll('main img, main script, main iframe').length") == 0
    assert browser.run("return [...document.links].filter(l => !/^https?:/.test(l.href)).length") == 0
    assert browser.run("return window.broken") is None
    hosts = "return [...new Set(performance.getEntriesByType('resource').map(e => new URL(e.name).origin))]"
    assert browser.run(hosts) == [room.url.rstrip("/")]
    # Were a title taken for HTML all the same, the page's own policy would keep it from running.
    refused = (
        "const s = document.createElement('script'); s.textContent = 'window.broken = 2'; document.body.append(s)"
    )
    browser.run(f"{refused}; return null")
    assert browser.run("return window.broken") is None


def test_stories_come_in_pages_and_by_time_size_and_words(room: NewsFeedProgram) -> None:
    now = room.next_days()
    for number in range(5):
        room.tell(page(f"s{number}.example/5", f"Count {number} Häuser", story(30 + number), now + number * HOUR))
        room.titled(f"Count {number} Häuser")
    room.tell(page("copy.example/5", "A copy", story(31), now + 5 * HOUR))
    room.titled("Count 1 Häuser", 2)

    def titles(**query: Any) -> list[str]:
        return [one["title"].removeprefix("Count ")[0] for one in room.stories(words="count", **query)]

    assert titles() == list("43210")
    assert titles(sort="largest")[0] == titles(sort="growing")[0] == "1"
    assert [titles(per_page=2, page=number) for number in (1, 2, 3, 4)] == [["4", "3"], ["2", "1"], ["0"], []]
    assert titles(at_least=2) == ["1"]
    assert titles(since=now + 3 * HOUR) == titles(hours=2) == list("431")
    assert titles(sites=2) == ["1"]
    assert titles(until=now + HOUR) == list("10")
    assert [one["site"] for one in room.stories(words="HÄUSER copy.EXAMPLE")] == ["s1.example"]
    whole = room.get("api/stories", words="count", per_page=2)[1]
    assert (whole["total"], whole["pages"], whole["page"]) == (5, 3, 1)
    for wrong in ({"sort": "best"}, {"page": "0"}, {"per_page": "x"}, {"since": "yesterday"}, {"at_least": "-1"}):
        status, answer = room.get("api/stories", **wrong)
        assert status == 400
        assert next(iter(wrong)) in answer["error"]
    assert room.get("api/stories/99999999")[0] == 404
    assert room.get("api/tables")[0] == room.get("table/")[0] == 404


def test_stories_leave_with_the_window(room: NewsFeedProgram, browser: Browser) -> None:
    now = room.next_days()
    room.tell(
        page("a.example/7", "Soon old", story(50), now), page("b.example/7", "Not so old", story(51), now + DAY)
    )
    room.titled("Soon old")
    room.titled("Not so old")
    browser.open(room.url)
    browser.sees(".card h2", "Soon old", "Not so old")
    room.tell(page("c.example/7", "Three days on", story(52), now + 3 * DAY))
    browser.sees(".card h2", "Three days on", "Not so old")
    browser.until(lambda: "Soon old" not in browser.texts(".card h2"), "the old story left")
    room.tell({"url": "https://b.example/7", "title": "Gone", "text": "gone", "status": 503, "time": now + 3 * DAY})
    room.tell(page("d.example/7", "A later one", story(53), now + 3 * DAY))
    room.titled("A later one")
    room.titled("Not so old")  # a failed fetch is no edit
    room.tell({"url": "https://b.example/7", "title": "Gone", "text": "gone", "status": 404, "time": now + 3 * DAY})
    room.until(lambda: "Not so old" not in [one["title"] for one in room.stories(per_page=200)], "the page is gone")


@pytest.mark.long
def test_a_killed_feed_goes_on_from_its_own_table(room: NewsFeedProgram) -> None:
    now = room.next_days()
    told = story(40)
    room.tell(page("a.example/6", "Before the kill", told, now))
    room.titled("Before the kill")
    others = [page(f"o{number}.example/6", f"Other {number}", story(60 + number), now) for number in range(5)]
    room.tell(*others)
    room.until(lambda: len(room.stories(words="other")) == 5, "all are told")
    before = room.stories(words="other")
    room.news.kill()
    room.tell(page("b.example/6", "While it was away", told, now + HOUR))
    room.open_feed()
    assert room.titled("Before the kill", 2)["newest_title"] == "While it was away"
    room.until(lambda: room.stories(words="other") == before, "it knows again what it had shown")
    assert "begins; pages: 0" not in room.news.output


class WebhookReceiver(LoopbackServer):
    """Takes webhooks, and notes kind and title of each whose signature is right."""

    def __init__(self) -> None:
        super().__init__(WebhookHandler)
        self.key = secrets.token_bytes(32)
        self.told: list[tuple[str, str]] = []


class WebhookHandler(BaseHTTPRequestHandler):
    """One request."""

    server: WebhookReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
        wanted = base64.b64encode(hmac.new(self.server.key, signed, "sha256").digest()).decode()
        if self.headers["webhook-signature"] == f"v1,{wanted}":
            event = json.loads(body)
            self.server.told.append((event["type"], event["data"]["title"]))
        self.send_response(204)
        self.end_headers()


@pytest.mark.long
def test_webhooks_tell_each_story_once_over_kills_and_never_an_old_one(room: NewsFeedProgram) -> None:
    now, sentences = room.next_days(), story(500)
    room.tell(page("a.example/w", "Old news", story(501), now))
    room.titled("Old news")
    with serving(WebhookReceiver()) as receiver:
        flags = ("--webhook", f"{receiver.url}/", "--webhook-updates")
        secret = f"whsec_{base64.b64encode(receiver.key).decode()}"

        def start() -> None:
            time.sleep(20 * NewsIntake.WRITE_EVERY_S)  # what was told is in the table
            room.news.kill()
            room.start_feed(*flags, SIMSTREAM_WEBHOOK_SECRET=secret)
            room.news.ready()

        start()
        room.tell(page("b.example/w", "Fresh news", sentences, now))
        wanted = [("story.created", "Fresh news")]
        room.until(lambda: receiver.told == wanted, "the new story is told")
        room.tell(page("c.example/w", "The same, elsewhere", sentences, now + HOUR))
        wanted.append(("story.updated", "Fresh news"))
        room.until(lambda: receiver.told == wanted, "its new version is told")
        time.sleep(20 * NewsIntake.WRITE_EVERY_S)
        room.news.kill()
        room.tell(page("d.example/w", "While it was away", story(502), now + HOUR))
        room.until_judged()
        start()
        wanted.append(("story.created", "While it was away"))
        room.until(lambda: receiver.told == wanted, "what came in the meantime is told, and nothing else")
        status, text = room.news.get("/metrics")
        assert status == 200
        assert re.search(r'simstream_webhooks_total\{.*result="delivered".*\} 1.0', text)
        assert room.news.end() == 0
        receiver.shutdown()
    room.open_feed()


@pytest.mark.long
def test_a_feed_is_ready_only_when_every_story_is_there_with_its_title(room: NewsFeedProgram) -> None:
    now, count = room.next_days(), 600
    room.news.kill()
    many = (page(f"s{number}.example/8", f"Many {number}", story(2000 + number), now) for number in range(count))
    room.tell(*many)
    room.until_judged()
    room.start_feed()
    before = []
    while (probed := room.news.get("/health/ready"))[0] != 200:
        before.append(probed[1])
    told = [one["title"] for number in (1, 2, 3) for one in room.stories(per_page=200, page=number)]
    assert sorted(told) == sorted(f"Many {number}" for number in range(count))
    assert [said for said in before if "still has to read about" in said]


@pytest.mark.long
def test_probe_and_page_tell_of_a_silent_broker_and_missed_pages_are_shown_later(
    room: NewsFeedProgram, browser: Browser, broker: KafkaBroker
) -> None:
    now, told = room.next_days(), story(70)
    room.tell(page("a.example/9", "Before the silence", told, now))
    card = room.titled("Before the silence")
    browser.open(f"{room.url}#story/{card['id']}")
    browser.sees("#story-title", "Before the silence")
    broker.pause()
    try:
        began = time.monotonic()
        status, answer = room.get("api/compare", a="https://a.example/9", b="https://a.example/9")
        assert (status, time.monotonic() - began < 11.5) == (503, True), answer
        room.until(lambda: room.news.get("/health/ready")[0] == 503, "the probe tells")
        assert "no broker has answered" in room.news.get("/health/ready")[1]
        browser.until(lambda: "No Kafka broker" in "".join(browser.texts("#notice.away p")), "the page tells")
        status, answer = room.get("api/compare", a="https://a.example/9", b="https://a.example/9")
        assert (status, "no broker answers" in answer["error"]) == (503, True)
        assert "waiting up to" not in room.news.output  # it waits for ever
    finally:
        broker.resume()
    room.tell(page("b.example/9", "After the silence", told, now + HOUR))
    room.titled("Before the silence", 2)
    room.news.ready()
    browser.until(lambda: browser.texts("#notice") == [], "the notice is gone")
    browser.sees(".step .title", "After the silence")


def test_home_pages_are_no_stories_and_mirrors_no_sites_and_both_are_told(
    room: NewsFeedProgram, browser: Browser
) -> None:
    now = room.next_days()
    links = "".join(f"<li><a href='/{n}'>{' '.join(story(3000 + n, 1))}</a></li>" for n in range(60))
    home = {"url": "https://home.example/", "html": f"<title>Home</title><ul>{links}</ul>", "time": now}
    room.tell(home, *(page(f"m{n}.one.example/1", "One site", story(71), now + n) for n in range(4)))
    room.titled("One site", 4)
    room.tell(*(page(f"two{n}.example/1", "Two sites", story(72), now + n) for n in range(2)))
    room.titled("Two sites", 2)
    room.tell(page("late.example/1", "Too late", story(73), now - 4 * DAY))
    room.until(lambda: room.get("api/stories")[1]["left_out"]["lists"] == 1, "the list is left out")
    largest = room.stories(sort="largest", per_page=2)
    assert [(one["title"], one["sites"], one["versions"]) for one in largest] == [
        ("Two sites", 2, 2),
        ("One site", 1, 4),
    ]
    late = room.get("api/stories")[1]["left_out"]["too_old"]
    room.tell(page("late.example/2", "Too late as well", story(74), now - 4 * DAY))
    room.until(lambda: room.get("api/stories")[1]["left_out"]["too_old"] == late + 1, "it is counted")
    browser.open(room.url)
    browser.until(
        lambda: "older than the window of 72 hours; 1 list of links" in "".join(browser.texts("#not-shown")), "told"
    )


@pytest.mark.long
def test_it_ends_cleanly_however_often_it_is_asked_to(room: NewsFeedProgram) -> None:
    room.open_feed()
    for how in (signal.SIGTERM, signal.SIGINT):
        room.news.process.send_signal(how)
        assert room.news.end(how, 100) == 0
        assert "the news page ends on request" in room.news.output
        assert not set(room.news.output.split()) & {"Traceback", "ERROR", "WARNING"}, room.news.output
        room.open_feed()


def test_a_second_process_would_write_the_same_table_and_is_refused(room: NewsFeedProgram) -> None:
    done = room.program.on_log("news", "--http-port", "0")
    assert done.returncode == 1
    told = done.stderr.decode().splitlines()
    assert any("waiting for the place of this log's news page, 12 s at most" in line for line in told)
    assert "another process shows the stories of this log (group " in told[-1]
    assert "stop that process first" in told[-1]
    room.tell(page("a.example/second", "After the refusal", story(81), room.next_days()))
    room.titled("After the refusal")


@pytest.mark.long
def test_a_frozen_process_whose_place_was_taken_writes_nothing_and_ends(room: NewsFeedProgram) -> None:
    room.open_feed()
    now, frozen = room.next_days(), room.news
    freeze(frozen.process.pid)
    with room.program.news("--window", "72h") as other:
        other.ready()
        room.tell(page("a.example/f", "In the meantime", story(90), now))
        frozen.process.send_signal(signal.SIGCONT)
        assert frozen.wait(40) == 1, frozen.output
        assert "another " in frozen.output.splitlines()[-1]
        other.until(lambda: "In the meantime" in other.get("/api/stories")[1], "the other one shows it")
    room.open_feed()
    room.titled("In the meantime")


def test_what_it_cannot_do_is_said_in_one_line(room: NewsFeedProgram, on_kafka: Program, tmp_path: Path) -> None:
    done = room.program.on_log("news", "--http-port", room.news.port)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"--http-port" in done.stderr
    for missing in (on_kafka.on_log("news"), on_kafka.run("news", "--http-port", "0", "--log", tmp_path)):
        *before, last = missing.stderr.decode().splitlines()
        assert (missing.returncode, last.startswith("simstream: ")) == (1, True)
        assert "topics create" in last
        assert all(" simstream.news: " in line for line in before)
    told = ["--webhook", "http://127.0.0.1:1/", "--log", tmp_path]
    done = on_kafka.run("news", *told, SIMSTREAM_WEBHOOK_SECRET="whsec_" + 32 * "A")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"webhooks need a Kafka log" in done.stderr


def test_a_log_in_a_directory_is_shown_from_its_beginning_at_each_start(cache: Path, tmp_path: Path) -> None:
    place = TopicPlace(str(tmp_path / "log"), "simstream")
    program = Program(tmp_path, cache, place)
    with place.open() as log:
        log.create_topics()
    with place.open() as log, program.serve(), closing(NewsFeedProgram(program, log)) as room:
        room.open_feed()
        room.tell(page("a.example/1", "In a directory", story(80), BEGINNING))
        before = room.titled("In a directory")
        room.news.kill()
        room.tell(page("b.example/1", "Told elsewhere", story(80), BEGINNING + HOUR))
        room.open_feed()
        after = room.titled("In a directory", 2)
        assert (after["id"], after["newest_title"]) == (before["id"], "Told elsewhere")
        room.news.end()
