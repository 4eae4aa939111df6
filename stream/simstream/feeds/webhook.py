"""Sends events to one receiver, signed as Standard Webhooks say. Best effort: what cannot be delivered in time is
dropped and counted, and a receiver of any kind never holds up the news page.

https://github.com/standard-webhooks/standard-webhooks, version 1: HMAC-SHA256 over `ID.TIMESTAMP.BODY`.
"""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import hmac
import itertools
import logging
import random
import re
import time
from base64 import b64decode, b64encode
from calendar import timegm
from dataclasses import dataclass
from email.utils import parsedate_tz
from math import inf
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from simstream.errors import SettingsError
from simstream.feeds.story_events import StoryEvent, StoryEvents
from simstream.sources.addresses import names_web_server
from simstream.telemetry.news_metrics import NewsMetrics

SECRET_VARIABLE: Final = "SIMSTREAM_WEBHOOK_SECRET"
_MAKE_SECRET: Final = (
    'make one with: python -c "import base64, secrets; '
    "print('whsec_' + base64.b64encode(secrets.token_bytes(32)).decode())\""
)
_RETRIED: Final = (408, 425, 429)
_UNVERIFIED: Final = (400, 401, 403)
"""What receivers answer to a wrong signature, or to a time that differs from theirs by more than some minutes."""
_PAUSING: Final = (429, 503)
"""With these, `Retry-After` says how long the receiver wants no request."""
_MAX_PAUSE_CHARACTERS: Final = 40
"""Characters of a `Retry-After` that is read; a date has 29."""
_TELL_S: Final = 300.0
"""Seconds between two log lines of one kind."""
_logger = logging.getLogger("simstream.news")
_DROPPED: Final = {
    result: f"webhooks for %s are dropped ({result}), such as %s: %s"
    for result in ("overflow", "refused", "expired")
}
"""A line for each reason: a flood of one does not silence another."""
_THEY_WAIT: Final = "webhooks for %s wait: %s; each is tried for %.0f minutes"


@dataclass(frozen=True, slots=True)
class WebhookLimits:
    """Bounds on what a receiver can cost."""

    most_waiting: int = 1_000
    """The most events that wait. A further one takes the place of the oldest."""
    at_once: int = 4
    """Requests at once."""
    answer_s: float = 10.0
    """Seconds for one request, with its answer's headers. The body of an answer is never read."""
    first_pause_s: float = 1.0
    """The pause before the second request. It doubles up to `longest_pause_s`; a random part of it is left out."""
    longest_pause_s: float = 60.0
    give_up_s: float = 900.0
    """Seconds after which an event is dropped."""
    look_s: float = 1.0
    """Seconds between two looks for events."""


class _WaitingEvent(NamedTuple):
    event: StoryEvent
    since: float
    next_at: float
    """When its next request is due."""
    pause: float
    """The pause before the last request; at first `first_pause_s`."""


class WebhookTarget:
    """An address and its key. `secret` is `whsec_` and 24 to 64 bytes in Base64. Raises SettingsError."""

    def __init__(self, url: str, secret: str) -> None:
        if not names_web_server(url):
            raise SettingsError(
                "--webhook is not an address of the web", "give one such as https://example.com/hook"
            )
        try:
            key = b64decode(secret.removeprefix("whsec_"), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not 24 <= len(key) <= 64:
            raise SettingsError(
                f"--webhook needs a secret of 24 to 64 bytes in {SECRET_VARIABLE}, as whsec_ and Base64",
                _MAKE_SECRET,
            )
        self.url = url
        self.host = urlsplit(url).hostname or ""
        self._key = key

    def headers(self, event: StoryEvent, timestamp: int) -> dict[str, str]:
        """Return the headers of a request at this time, in seconds since 1970."""
        signed = b"%s.%d.%s" % (event.id.encode(), timestamp, event.body)
        signature = b64encode(hmac.digest(self._key, signed, "sha256")).decode()
        return {
            "content-type": "application/json",
            "webhook-id": event.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": f"v1,{signature}",
            "user-agent": "simstream",
        }


class WebhookSender:
    """Sends all events, until it is cancelled."""

    def __init__(
        self,
        target: WebhookTarget,
        events: StoryEvents,
        metrics: NewsMetrics,
        limits: WebhookLimits | None = None,
    ) -> None:
        self._target = target
        self._events = events
        self._metrics = metrics
        self._limits = limits or WebhookLimits()
        self._numbers = itertools.count()
        self._waiting: dict[int, _WaitingEvent] = {}
        """By number. The events come with rising numbers."""
        self._rests_until = 0.0
        """When the receiver may be asked again."""
        self._failures = 0
        """Requests in a row that the receiver neither took nor refused."""
        self._has_events = asyncio.Event()
        self._in_flight = 0
        self._told_at: dict[str, float] = {}
        """When a log line of each kind was written."""
        self._last_told = ""
        """The kind of the last of these lines; empty since a webhook has arrived after it."""
        metrics.webhooks_waiting.set_function(self._count)

    async def run(self) -> None:
        """Look for events, and send them. Says at its end how many were left."""
        timeout = aiohttp.ClientTimeout(total=self._limits.answer_s)
        _logger.info("webhooks go to %s", self._target.host)
        try:
            async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
                await asyncio.gather(self._look(), *(self._send_all(session) for _ in range(self._limits.at_once)))
        finally:
            if count := self._count():
                _logger.warning(
                    "webhooks for %s still waited and may be lost (%d): /feed.json has their stories",
                    self._target.host,
                    count,
                )

    def _count(self) -> int:
        return len(self._waiting) + self._in_flight

    async def _look(self) -> None:
        while True:
            self._collect()
            await asyncio.sleep(0 if self._events.has_more else self._limits.look_s)

    def _collect(self) -> None:
        for event in self._events.take():
            now = time.monotonic()
            self._put(next(self._numbers), _WaitingEvent(event, now, now, self._limits.first_pause_s))

    def _put(self, number: int, waiting: _WaitingEvent) -> None:
        self._waiting[number] = waiting
        if len(self._waiting) > self._limits.most_waiting:
            oldest = self._waiting.pop(min(self._waiting)).event
            self._drop("overflow", f"more than {self._limits.most_waiting} wait", oldest)
        self._has_events.set()

    async def _send_all(self, session: aiohttp.ClientSession) -> None:
        while True:
            number, waiting = await self._next()
            self._in_flight += 1
            if waiting.next_at > waiting.since:
                self._metrics.webhook_retries.inc()
            await self._send(session, number, waiting)
            self._in_flight -= 1

    async def _next(self) -> tuple[int, _WaitingEvent]:
        """Wait until the request of an event is due, and take the event, with its number."""
        while True:
            self._has_events.clear()
            rest = None
            if self._waiting:
                number = min(self._waiting, key=lambda one: (self._waiting[one].next_at, one))
                rest = max(self._waiting[number].next_at, self._rests_until) - time.monotonic()
                if rest <= 0:
                    return number, self._waiting.pop(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._has_events.wait()

    async def _send(self, session: aiohttp.ClientSession, number: int, waiting: _WaitingEvent) -> None:
        """Send one request. An event that the receiver neither takes nor refuses waits again, until it expires.

        Others are sent meanwhile: an event that the receiver cannot digest holds up no other.
        """
        status, why, rest = await self._ask(session, waiting.event)
        if 200 <= status < 300:
            self._failures = 0
            self._metrics.webhooks.labels("delivered").inc()
            if self._last_told == _THEY_WAIT:
                self._last_told = ""
                _logger.info("webhooks for %s arrive again", self._target.host)
            return
        if 300 <= status < 500 and status not in _RETRIED:
            self._failures = 0
            self._drop("refused", why, waiting.event)
            return
        pause = min(2 * waiting.pause, self._limits.longest_pause_s)
        now = time.monotonic()
        next_at = now + pause * random.uniform(0.25, 0.5)
        rest = min(rest, self._limits.give_up_s)
        self._failures += 1
        if self._failures > self._limits.at_once:  # it is not a single event that the receiver cannot digest
            rest = max(rest, self._pause_of_all() * random.uniform(0.25, 0.5))
        self._rests_until = max(self._rests_until, now + rest)
        if next_at - waiting.since > self._limits.give_up_s:
            self._drop("expired", why, waiting.event)
            return
        self._warn(_THEY_WAIT, why, self._limits.give_up_s / 60)
        self._put(number, waiting._replace(next_at=next_at, pause=pause))

    def _pause_of_all(self) -> float:
        """Return the pause of a receiver that takes nothing, in s: it doubles each time that it took nothing."""
        doublings = min(self._failures // self._limits.at_once, 10)
        return min(self._limits.first_pause_s * 2.0**doublings, self._limits.longest_pause_s)

    async def _ask(self, session: aiohttp.ClientSession, event: StoryEvent) -> tuple[int, str, float]:
        """Send one request. Returns the answer's status, or 0; a sentence; and the seconds of `Retry-After`."""
        headers = self._target.headers(event, int(time.time()))
        try:
            async with session.post(
                self._target.url, data=event.body, headers=headers, allow_redirects=False
            ) as answer:
                answer.close()  # the body may never end
                asked = answer.headers.get("Retry-After", "") if answer.status in _PAUSING else ""
                return answer.status, _describe_answer(answer.status), seconds_asked(asked, time.time())
        except TimeoutError:
            return 0, f"it does not answer within {self._limits.answer_s:g} s", 0.0
        except aiohttp.ClientSSLError as error:
            return 0, f"its TLS is refused ({type(error).__name__})", 0.0
        except aiohttp.ClientConnectorError:
            return 0, "it cannot be reached", 0.0
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return 0, f"it does not answer ({type(error).__name__})", 0.0

    def _drop(self, result: str, why: str, event: StoryEvent) -> None:
        self._metrics.webhooks.labels(result).inc()
        self._warn(_DROPPED[result], event.id, why)

    def _warn(self, line: str, *values: object) -> None:
        """Log a line, unless it was logged a short while ago."""
        now = time.monotonic()
        if now - self._told_at.get(line, -inf) > _TELL_S:
            self._told_at[line], self._last_told = now, line
            _logger.warning(line, self._target.host, *values)


def seconds_asked(value: str, now: float) -> float:
    """Return the seconds that a `Retry-After` asks for at the time `now`, in seconds since 1970: it is a number of
    seconds or a date. Of anything else, and of a date that is past, return 0."""
    if re.fullmatch(r"[0-9]{1,9}", value):
        return float(value)
    parts = parsedate_tz(value) if len(value) <= _MAX_PAUSE_CHARACTERS else None
    with contextlib.suppress(ValueError, OverflowError):  # a date that no calendar has
        return max(0.0, timegm(parts[:9]) - (parts[9] or 0) - now) if parts else 0.0
    return 0.0


def _describe_answer(status: int) -> str:
    if status not in _UNVERIFIED:
        return f"it answers {status}"
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"it answers {status}: check {SECRET_VARIABLE}, and the clock of this machine, which says {now}"
