"""Reads `verdicts` and `pages`, folds their records, and writes the fold's table.

Each topic is read by a thread that hands over what has come, and the event loop folds it: so nothing else has to
wait for a broker. On Kafka only committed records are read. A log in a directory has no table: it is read from its
beginning at each start. Until the brokers answer, the page is served without stories.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from simstream.closing import Closing
from simstream.errors import BrokerUnreachable, LogError, LogLocked
from simstream.feeds.condition import FeedPartition
from simstream.feeds.state import FeedState, take_page, take_verdict
from simstream.feeds.table import Changes, NewsMembership, NewsTable, TableAccess, TableTopic
from simstream.log.base import Log, Reader
from simstream.log.options import PAGES, VERDICTS
from simstream.model import Record
from simstream.processors import call_in_daemon
from simstream.wire.page import PageLimits

T = TypeVar("T")
_logger = logging.getLogger("simstream.news")


class _StoppedError(Exception):
    """The news page is to end before a question has its answer."""


class NewsIntake(Closing):
    """Reads, folds and writes until it is stopped. Close it after `run`."""

    MAX_RECORDS: Final = 500
    """The most records of a topic that are taken at once."""
    POLL_S: Final = 0.25
    SLICE_S: Final = 0.005
    """Seconds of folding after which other tasks have their turn."""
    WRITE_EVERY_S: Final = 0.05
    """Seconds between two writes of the table. A kill in between costs no story, but its webhook comes twice."""
    MAX_LEADER_WAIT_S: Final = 10.0
    """Seconds to wait for a leader that knows all records that were read before."""
    MAX_CHANGES: Final = 20_000
    """After so many unwritten changes, reading waits for the table."""
    MAX_LAST_WRITE_S: Final = 3.0
    """Seconds that the last write may take."""
    PATIENCE_S: Final = 12.0
    """Seconds to wait for the place of a process that was killed: twice its session."""

    def __init__(
        self,
        log: Log,
        feed: FeedState,
        limits: PageLimits,
        open_table: Callable[[], TableAccess | None],
    ) -> None:
        """`open_table` is called in a thread; it returns None for a log in a directory, and may raise LogError."""
        self._log = log
        self._feed = feed
        self._limits = limits
        self._open_table = open_table
        self._topic: TableTopic | None = None
        self._place: NewsMembership | None = None
        self._table = NewsTable()
        self._unwritten: Changes = {}
        """Changes that were taken from the table, and that the brokers do not have yet."""
        self._stopping = asyncio.Event()
        self._has_room = asyncio.Event()
        self._threads = ThreadPoolExecutor(3, "news-intake")

    async def run(self) -> None:
        """Begin with the table, then read and write until `stop`, or an error. Raises LogError, StateDamaged."""
        with contextlib.suppress(_StoppedError):
            await self._open_place()
            await self._ask(self._begin)
            await self._feed.settle()
        if self._stopping.is_set():
            return
        reading = [
            asyncio.ensure_future(self._read(VERDICTS, partial(take_verdict, self._feed))),
            asyncio.ensure_future(self._read(PAGES, partial(take_page, self._feed, self._limits))),
        ]
        tasks = [*reading, asyncio.ensure_future(self._write(reading))]
        try:
            await asyncio.gather(*tasks)
        finally:
            self.stop()
            await asyncio.wait(tasks)

    def close(self) -> None:
        """See Closing. Leaves the group. May be called again."""
        self._threads.shutdown(wait=False)
        for one in (self._topic, self._place):  # what still asks in a thread ends before the group may be left
            if one is not None:
                one.close()

    async def _open_place(self) -> None:
        """Open the table, become its writer, and read it."""
        access = await self._ask(self._open_table)
        if access is not None:
            self._topic, self._place = access
            await self._wait_for_place(self._place)
            entries = await self._ask(self._topic.begin)
            try:
                self._table = NewsTable(entries)
            except ValueError as error:
                raise self._topic.damaged(error) from error

    def _begin(self) -> None:
        """Take the table's entries. The places of pages of a topic `pages` that is gone are no places any more."""
        self._feed.begin(self._table)
        known = self._table.progress.get(PAGES)
        if known is not None and known.id != self._log.topic(PAGES).id:
            self._feed.fold.forget_places()

    def stop(self) -> None:
        """End `run` soon. What was read is written once more, unless that takes longer than MAX_LAST_WRITE_S."""
        if not self._stopping.is_set() and self._topic is not None:
            asyncio.get_running_loop().call_later(self.MAX_LAST_WRITE_S, self._topic.end)
        self._stopping.set()
        self._has_room.set()

    async def _wait_for_place(self, place: NewsMembership) -> None:
        """Wait for the place of the process that writes the table. Raises LogLocked if another process has it."""
        began = time.monotonic()
        end, is_told = began + self.PATIENCE_S, False
        while not place.is_held and not self._stopping.is_set():
            now = time.monotonic()
            if now > end and place.is_taken:
                raise self._locked()
            if now > began + 1.0 and not is_told:
                is_told = True
                _logger.info(
                    "waiting for the place of this log's news page, %.0f s at most if another process was killed",
                    self.PATIENCE_S,
                )
            await _until(self._stopping, 0.05)

    async def _read(self, topic: str, take: Callable[[Record], None]) -> None:
        with contextlib.suppress(_StoppedError):
            await self._follow(topic, take)

    async def _follow(self, topic: str, take: Callable[[Record], None]) -> None:
        """Read and fold a topic. Raises _StoppedError if the end comes before its reader is open."""
        info = await self._ask(partial(self._log.topic, topic))
        start = self._table.begin(topic, info)
        offsets = self._table.progress[topic].offsets
        firsts = await self._ask(partial(self._log.low_watermarks, topic))
        for partition, first in firsts.items():
            self._feed.condition.take(FeedPartition(topic, partition), max(first, start.get(partition, 0)))
        if expired := sum(max(0, firsts.get(partition, 0) - offset) for partition, offset in start.items()):
            _logger.warning("about %d records of %s expired before the news page read them", expired, info.name)
        with await self._open(topic, start) as reader:
            while not self._stopping.is_set():
                records, began = await self._poll(reader), time.perf_counter()
                for record in records:
                    take(record)
                    offsets[record.partition] = record.offset + 1
                    self._feed.condition.take(FeedPartition(topic, record.partition), record.offset + 1)
                    await self._feed.settle()
                    if time.perf_counter() - began > self.SLICE_S:
                        await asyncio.sleep(0)  # the web has its turn
                        began = time.perf_counter()
                self._note_passed(reader, topic)
                await self._wait_for_room()

    async def _open(self, topic: str, start: dict[int, int]) -> Reader:
        """Open a reader. A leader that has just been elected may not know yet how far its records go."""
        end = time.monotonic() + self.MAX_LEADER_WAIT_S
        while True:
            try:
                return await self._ask(partial(self._log.open_reader, topic, start))
            except LogError as error:
                if type(error) is not LogError or self._stopping.is_set():
                    raise
                if time.monotonic() > end:
                    what = f"the news page had read more of a topic than there is ({error.what})"
                    raise LogError(
                        what, f"delete the topic {self._feed.name}.table, and start the news page again"
                    ) from error
            await _until(self._stopping, 0.5)

    async def _poll(self, reader: Reader) -> list[Record]:
        """Return what has come. A broker that does not answer is waited for: the condition says so."""
        try:
            return await self._in_thread(partial(reader.poll, self.MAX_RECORDS, self.POLL_S))
        except BrokerUnreachable as error:
            _logger.debug("no record can be read: %s", error)
            await asyncio.sleep(self.POLL_S)
            return []

    def _note_passed(self, reader: Reader, topic: str) -> None:
        """Note which partitions were read to their ends, also in the table: the last offsets may be markers."""
        offsets = self._table.progress[topic].offsets
        for where, end in self._feed.condition.ends.items():
            if where.topic == topic and reader.passed({where.number: end}):
                self._feed.condition.take(where, end)
                if end > offsets.get(where.number, 0):
                    offsets[where.number] = end

    async def _wait_for_room(self) -> None:
        while len(self._table.changes) >= self.MAX_CHANGES and not self._stopping.is_set():
            self._has_room.clear()
            await self._has_room.wait()

    async def _write(self, reading: list[asyncio.Task[None]]) -> None:
        while not self._stopping.is_set():
            await _until(self._stopping, self.WRITE_EVERY_S)
            await self._write_changes()
        await asyncio.wait(reading)
        end = time.monotonic() + self.MAX_LAST_WRITE_S
        while (self._unwritten or self._table.changes) and time.monotonic() < end:
            await self._write_changes()
            await asyncio.sleep(self.WRITE_EVERY_S)

    async def _write_changes(self) -> None:
        """Write the changes that are there, if this process has its place."""
        if self._topic is None or self._place is None:
            self._table.changes.clear()
            self._has_room.set()
            return
        await self._in_thread(self._topic.check)
        if self._place.is_held:
            self._unwritten = self._unwritten or self._table.take_changes()
            if self._unwritten:
                is_written = await self._in_thread(partial(self._topic.write, self._unwritten))
                self._unwritten = {} if is_written else self._unwritten
        elif self._place.is_taken:
            raise self._locked()
        self._has_room.set()

    def _locked(self) -> LogLocked:
        return LogLocked(
            f"another process shows the stories of this log (group {self._feed.name})", "stop that process first"
        )

    async def _ask(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, called in a thread. Raises _StoppedError if the end comes first.

        After the end nothing is called: a page that never had its place must not fence the one that has it.
        """
        if self._stopping.is_set():
            raise _StoppedError
        answer = asyncio.wrap_future(call_in_daemon(work, "question"))
        stopping = asyncio.ensure_future(self._stopping.wait())
        either: list[asyncio.Future[Any]] = [answer, stopping]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not answer.done():
            answer.cancel()
            raise _StoppedError
        return answer.result()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


async def _until(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
