"""Pages that move the state of a judge: the seeded pages, among them templates, late pages and withdrawals."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from simstream.log.base import Log
from simstream.log.options import PAGES
from tests.chaos.feed import key_of
from tests.e2e import pages

BEGIN_MS = 1_700_000_000_000
"""The time of the first page of `tests.e2e.pages`; the others follow a minute apart."""
HOUR_MS = 3_600_000
LATEST_MS = 12 * HOUR_MS
"""How late a late page is at most."""
TEMPLATE, RELATED, LATE, WITHDRAWN = 0.10, 0.15, 0.06, 0.05
"""The shares of pages of a template, of pages related to others, of late pages, and of withdrawals of earlier
pages."""


class EventfulPage(NamedTuple):
    """A record of `pages`. A record without a value withdraws the page of its key."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    """The time of the page in ms since 1970, if its value names no time."""


def make(count: int, seed: int = 1) -> list[EventfulPage]:
    """Return the pages of `tests.e2e.pages`, a part of them changed."""
    return list(islice(endless(seed, count), count))


def endless(seed: int, block: int = 500) -> Iterator[EventfulPage]:
    """Yield such pages without an end. Ids and times of one block come again in the next block."""
    maker = PageMaker(random.Random(seed))
    while True:
        for number, line in enumerate(pages.lines(block, seed)):
            yield maker.changed(line, BEGIN_MS + number * 60_000)
        seed += 1


def append(log: Log, made: list[EventfulPage]) -> None:
    """Append the pages, each to the partition of its key."""
    with log.open_appender(PAGES) as appender:
        for page in made:
            appender.append(page.value, page.key, timestamp=page.timestamp)


class PageMaker:
    """Changes pages. Related pages differ so much that some match a third page, but not one another."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._templates = [pages.text(rng, 80) for _ in range(3)]
        self._base = _english(rng)
        self._seen: list[bytes] = []

    def changed(self, line: bytes, timestamp: int) -> EventfulPage:
        """The page, maybe another one; a broken line stays as it is."""
        key = key_of(line)
        page = json.loads(line) if key is not None else {}
        if key is None or not isinstance(page.get("text"), str) or "status" in page:
            return EventfulPage(key, line, timestamp)
        chance = self._rng.random()
        if chance < WITHDRAWN and self._seen:
            return EventfulPage(self._rng.choice(self._seen), None, timestamp)
        self._seen.append(key)
        self._change(page, chance - WITHDRAWN)
        return EventfulPage(key, json.dumps(page, ensure_ascii=False).encode(), timestamp)

    def _change(self, page: dict[str, Any], chance: float) -> None:
        rng = self._rng
        if chance < TEMPLATE:
            page["text"] = pages.edited(rng, rng.choice(self._templates), rng.randrange(3))
        elif chance < TEMPLATE + RELATED:
            if rng.random() < 0.05:
                self._base = _english(rng)
            page["text"] = pages.edited(rng, self._base, rng.choice([0, 6, 12, 18]))
        elif chance < TEMPLATE + RELATED + LATE:
            page["time"] -= rng.randrange(LATEST_MS)


def _english(rng: random.Random) -> str:
    return " ".join(rng.choice(pages.ENGLISH) for _ in range(80))
