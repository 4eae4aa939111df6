"""Reads `verdicts` and `pages`, folds them, and keeps the fold in a table of its own: the Faust app.

Faust also reads uncommitted records, and may read a record twice; the fold accepts both. The table's changelog has
one partition, so after a restart it is read back in the order in which it was written.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any, NamedTuple, cast

import faust
import msgspec

from simstream.errors import LogDamaged, StateDamaged
from simstream.feeds.acks import EventAcks
from simstream.feeds.broker_settings import credentials
from simstream.feeds.cards import StoryCards
from simstream.feeds.condition import FeedCondition, FeedPartition
from simstream.feeds.fold import FoldLimits, VerdictFold
from simstream.feeds.prepare import SESSION_S
from simstream.feeds.records import PageSheet, place
from simstream.feeds.title_words import TitleWords
from simstream.feeds.titles import sheet_of
from simstream.log.base import TopicInfo
from simstream.model import Record
from simstream.settings import Settings
from simstream.wire import verdict as wire
from simstream.wire.page import PageLimits

FORMAT = 2
"""The format of the table's entries. Another format begins with a table of its own."""
TABLE = "news"
MAX_WAITING_RECORDS = 500
"""The number of records of a topic that are read ahead."""
MAX_BEHIND = 128
"""After so many changed pages the cards are refreshed without a question."""
_logger = logging.getLogger("simstream.news")


class FeedTopics(NamedTuple):
    """The topics that are read, and the number of replicas of the table."""

    verdicts: TopicInfo
    pages: TopicInfo
    replicas: int


class FeedState:
    """The state that the app's agents and its web share: the fold and its cards, once the table was read."""

    def __init__(self, limits: FoldLimits, words: TitleWords | None = None) -> None:
        self.limits = limits
        self._words = words
        self.fold: VerdictFold | None = None
        self.cards: StoryCards | None = None
        self.condition = FeedCondition()
        self.inboxes: list[Any] = []
        """Faust's channels, with the records that are not taken yet."""
        self.name = ""
        """The app's name, which stays the same as long as the log."""
        self.sign = ""
        """A new sign for each start of the news page; empty until the cards show all that it began with."""
        self.on_start: list[Callable[[StoryCards], None]] = []
        """Called with the cards once they show all that the news page began with."""
        self.is_crashed: Callable[[], bool] = lambda: False
        """Whether the app has crashed. Then the stories no longer change."""

    def begin(self, table: MutableMapping[str, bytes]) -> None:
        """Start from the table's entries. Raises StateDamaged."""
        try:
            self.fold = VerdictFold(table, self.limits)
        except (msgspec.MsgspecError, KeyError, ValueError) as error:
            raise StateDamaged(
                f"the news page's table holds an entry that cannot be read ({error})",
                f"delete the consumer group and the topics PREFIX.news{FORMAT}.*, and start the news page again",
            ) from error
        self.cards, self.sign = StoryCards(self.fold, self._words), ""
        self.condition.has_read_table = False
        _logger.info("the news page begins with %d pages", len(self.fold.versions))

    async def settle(self) -> None:
        """Remove what is too old, and refresh the cards, in slices: other tasks go on in between."""
        assert self.fold is not None
        assert self.cards is not None
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


def app_name(settings: Settings, verdicts: TopicInfo) -> str:
    """Return the name of the app's consumer group, which is the first part of its own topics' names.

    It depends on the topic's id: if `verdicts` is deleted and created again, the news page begins again.
    """
    judged = settings.publish_to or settings.prefix
    sign = "".join(char for char in verdicts.id if char.isalnum())[:8].lower()
    return f"{judged}.news{FORMAT}.{sign}"


def make_app(settings: Settings, topics: FeedTopics, feed: FeedState, data: str) -> faust.App:
    """Return the app with its agents and table. `data` is a folder that it may write to."""
    app = faust.App(
        app_name(settings, topics.verdicts),
        broker=[f"kafka://{server}" for server in settings.log.removeprefix("kafka://").split(",")],
        broker_credentials=credentials(settings.kafka),
        store="memory://",
        datadir=data,
        autodiscover=False,
        topic_disable_leader=True,
        topic_replication_factor=topics.replicas,
        table_standby_replicas=0,
        stream_buffer_maxsize=MAX_WAITING_RECORDS,
        stream_wait_empty=False,  # unacknowledged records are read again
        consumer_auto_offset_reset="earliest",
        broker_session_timeout=SESSION_S,
        broker_heartbeat_interval=2.0,
        broker_commit_interval=1.0,
        producer_compression_type=None,
        web_enabled=True,
        web_host=settings.http_host,
        web_bind=settings.http_host,
        web_port=settings.http_port,
        web_cors_options={},
    )
    feed.is_crashed = lambda: bool(app.crashed)
    feed.name = app_name(settings, topics.verdicts)
    table = cast(Any, app).Table(TABLE, key_type=str, value_type=bytes, partitions=1, use_partitioner=True)
    acks = EventAcks(app)

    async def recovered() -> None:
        try:
            feed.begin(table)
        except StateDamaged as error:
            await app.crash(error)
        else:
            await feed.settle()

    table.on_recover(recovered)
    table.partition_for_key = lambda _: 0  # asking the producer fails while the topic is new to it

    def read(info: TopicInfo) -> Any:
        raw: Any = {"key_serializer": "raw", "value_serializer": "raw"}  # by default it would look for JSON
        return app.topic(info.name, key_type=bytes, value_type=bytes, allow_empty=True, **raw)

    limits = PageLimits(settings.max_record_bytes, settings.field_paths)

    async def work_in(take: Callable[[Any], None], event: Any) -> None:
        try:
            take(event.message)
            where = FeedPartition(event.message.topic, event.message.partition)
            feed.condition.take(where, event.message.offset + 1)
            await feed.settle()
            await acks.add(event)
        except Exception as error:
            await app.crash(error)  # Faust would skip the record and go on
            raise

    @app.agent(read(topics.verdicts), concurrency=1)
    async def verdicts(stream: Any) -> None:
        feed.inboxes.append(stream.channel)
        async for event in stream.noack().events():
            await work_in(partial(take_verdict, feed), event)

    @app.agent(read(topics.pages), concurrency=1)
    async def pages(stream: Any) -> None:
        feed.inboxes.append(stream.channel)
        async for event in stream.noack().events():
            await work_in(partial(take_page, feed, limits), event)

    app.timer(acks.EVERY)(acks.settle)
    app.on_before_shutdown.connect(acks.last)
    return app


def take_verdict(feed: FeedState, message: Any) -> None:
    """Take one record of `verdicts`."""
    assert feed.fold is not None  # agents wait until the table was read
    try:
        verdict = wire.decode(message.value or b"")
    except LogDamaged as error:
        _logger.warning("partition %d, offset %d: %s", message.partition, message.offset, error.what)
        return
    numbers = (verdict.cluster_id or "0", *verdict.merged_clusters)
    if not all(number.isascii() and number.isdecimal() and len(number) < 20 for number in numbers):
        where = message.partition, message.offset
        _logger.warning("partition %d, offset %d: a verdict has a cluster id that is not a number", *where)
        return
    feed.fold.apply(verdict, message.partition)


def take_page(feed: FeedState, limits: PageLimits, message: Any) -> None:
    """Take one record of `pages`. A page whose bytes raise an error has no title, and all else goes on."""
    assert feed.fold is not None
    record = to_record(message)
    try:
        sheet = sheet_of(record, limits)
    except Exception as error:  # noqa: BLE001  # a stranger's bytes must not end the news page for all
        where = (record.partition, record.offset, type(error).__name__)
        _logger.warning("a page's title cannot be read: partition %d, offset %d (%s)", *where)
        sheet = PageSheet("", record.timestamp)
    if sheet is not None:
        feed.fold.read(place(message.partition, message.offset), sheet)


def to_record(message: Any) -> Record:
    """Return a message of Faust as a record."""
    headers = message.headers or ()
    pairs = headers.items() if hasattr(headers, "items") else headers
    return Record(
        message.topic,
        message.partition,
        message.offset,
        message.key,
        message.value,
        tuple((str(name), value or b"") for name, value in pairs),
        max(0, round((message.timestamp or 0) * 1000)),
    )
