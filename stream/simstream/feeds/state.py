"""The state that the news page's reading and its web share, and how a record changes it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, MutableMapping

import msgspec

from simstream.errors import LogDamaged, StateDamaged
from simstream.feeds.cards import StoryCards
from simstream.feeds.condition import FeedCondition
from simstream.feeds.fold import FoldLimits, VerdictFold
from simstream.feeds.records import PageSheet, place
from simstream.feeds.title_words import TitleWords
from simstream.feeds.titles import sheet_of
from simstream.log import judged_prefix
from simstream.log.base import TopicInfo
from simstream.model import Record
from simstream.settings import Settings
from simstream.wire import verdict as wire
from simstream.wire.page import MAX_TIME_MS, PageLimits

FORMAT = 2
"""The format of the table's entries. Another format begins with a table of its own."""
MAX_ORDINAL = 1 << 63
MAX_BEHIND = 128
"""After so many changed pages the cards are refreshed without a question."""
_logger = logging.getLogger("simstream.news")


class FeedState:
    """The fold and its cards, once the table was read, and the news page's condition."""

    def __init__(self, limits: FoldLimits, words: TitleWords | None = None, name: str = "") -> None:
        self.limits = limits
        self._words = words
        self.fold: VerdictFold
        """There is none before `begin`."""
        self.cards: StoryCards
        """There are none before `begin`."""
        self.condition = FeedCondition()
        self.name = name
        """See `news_name`."""
        self.sign = ""
        """A new sign for each start of the news page; empty until the cards show all that it began with."""
        self.on_start: list[Callable[[StoryCards], None]] = []
        """Called with the cards once they show all that the news page began with."""

    def begin(self, table: MutableMapping[str, bytes]) -> None:
        """Start from the table's entries. Raises StateDamaged."""
        try:
            self.fold = VerdictFold(table, self.limits)
        except (msgspec.MsgspecError, LookupError, ValueError) as error:
            raise StateDamaged(
                f"the news page's table holds an entry that cannot be read ({error})",
                f"delete the topic {self.name}.table, and start the news page again",
            ) from error
        self.cards, self.sign = StoryCards(self.fold, self._words), ""
        self.condition.has_read_table = False
        _logger.info("the news page has read its table; pages: %d", len(self.fold.versions))
        if aged := self.fold.aged_at_start:
            _logger.warning(
                "pages that left the news page because its window is now %g min: %d; to have them back, stop the "
                "news page, delete the topic %s.table, and start it with a longer --window",
                self.limits.window_ms / 60_000,
                aged,
                self.name,
            )

    async def settle(self) -> None:
        """Remove what is too old, and refresh the cards, in slices: other tasks go on in between."""
        more = self.fold.age() or self.cards.behind >= MAX_BEHIND or not self.sign
        while more:
            aged = self.fold.age()
            more = self.cards.refresh() or aged
            await asyncio.sleep(0)
        if not self.sign:
            self.sign = secrets.token_hex(4)
            self.cards.note_changes = bool(self.on_start)
            for hear in self.on_start:
                hear(self.cards)
        self.condition.has_read_table = True


def news_name(settings: Settings, verdicts: TopicInfo) -> str:
    """Return what the news page's group, its table and the ids of its entries and webhooks are named after.

    It depends on the topic's id: if `verdicts` is deleted and created again, the news page begins again.
    """
    sign = "".join(char for char in verdicts.id if char.isalnum())[:8].lower()
    return f"{judged_prefix(settings)}.news{FORMAT}.{sign}"


def take_verdict(feed: FeedState, record: Record) -> None:
    """Take one record of `verdicts`."""
    where = record.partition, record.offset
    try:
        verdict = wire.decode(record.value or b"")
    except LogDamaged as error:
        _logger.warning("partition %d, offset %d: %s", *where, error.what)
        return
    numbers = (verdict.cluster_id or "0", *verdict.merged_clusters)
    if not all(number.isascii() and number.isdecimal() and len(number) < 20 for number in numbers):
        _logger.warning("partition %d, offset %d: a verdict has a cluster id that is not a number", *where)
        return
    if abs(verdict.time) > MAX_TIME_MS or not 0 <= verdict.ordinal < MAX_ORDINAL:
        _logger.warning(
            "partition %d, offset %d: a verdict's time (%d ms) or ordinal (%d) is out of range",
            *where,
            verdict.time,
            verdict.ordinal,
        )
        return
    feed.fold.apply(verdict, record.partition, record.timestamp)


def take_page(feed: FeedState, limits: PageLimits, record: Record) -> None:
    """Take one record of `pages`. A page whose bytes raise an error has no title, and all else goes on."""
    try:
        sheet = sheet_of(record, limits)
    except Exception as error:  # noqa: BLE001  # a stranger's bytes must not end the news page for all
        where = (record.partition, record.offset, type(error).__name__)
        _logger.warning("a page's title cannot be read: partition %d, offset %d (%s)", *where)
        sheet = PageSheet("", record.timestamp)
    if sheet is not None:
        feed.fold.read(place(record.partition, record.offset), sheet)
