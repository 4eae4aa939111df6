"""The fingerprinter's loop: reads `pages`, writes frames, commits what the log has acknowledged."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from simstream.errors import DeliveryFailed, SimstreamError
from simstream.log.base import DEAD_LETTERS, FINGERPRINTS, PAGES, Appender, Log, PageConsumer, PollResult
from simstream.roles.context import RoleContext
from simstream.roles.fingerprint import dead_letters
from simstream.roles.fingerprint.first_frame import check_recipe
from simstream.roles.fingerprint.intake_metrics import IntakeMetrics
from simstream.roles.fingerprint.share_gatherer import ShareGatherer
from simstream.roles.fingerprint.shares import PartitionFlow, ShareBatch, ShareFrames, ShareMaker, came
from simstream.roles.topics import check_topics
from simstream.text.fingerprinter import Fingerprinter
from simstream.wire.page import PageLimits

NAME = "fingerprint"
COMMIT_EVERY_S = 0.5
MAX_BYTES = 32 << 20
"""No page is read while at least this many bytes of pages are gathered or worked on. One poll may go beyond it."""
MAX_SENT_BYTES = 16 << 20
"""No page is read while at least this many bytes of frames and dead letters are not acknowledged.

The client's queue holds far more, so appending never waits."""
IDLE_S = 0.2
"""How long a poll may wait where nothing is under way: it ends with the first record all the same."""
TURN_S = 0.002
"""How long a poll may wait while something is worked on, which is sent as soon as it is done."""
SENT_S = 0.02
"""How long a poll may wait while acknowledgements are due."""
FULL_S = 0.05
"""How long to wait for room."""
KEEP_EVERY_S = 1.0
"""Where there is no room, the group hears so often that this member lives; it must, whatever a page takes."""
HOLE_S = 10.0
"""Seconds without a page of a partition, after which the offsets behind its last page (markers of transactions)
become a frame without pages. Else the commit stays before a marker, and once all pages have expired, a restart
would be refused."""
MAX_PAUSE_S = 5.0
_RATIO_PAGES = 1_000  # a share of unreadable pages is judged over at least so many
_log = logging.getLogger("simstream.fingerprint")


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch whose frames and dead letters are on their way: done when both counts are acknowledged."""

    to: Sequence[tuple[PartitionFlow, int]]
    """The flows of its shares, and the offset behind each."""
    frames: int
    dead_letters: int
    bytes: int
    """Of the frames and dead letters."""
    came: Mapping[int, int]
    """How many of its pages came at which ms."""


class FingerprintRole:
    """One member of the group of fingerprinters. `run` works until `context.stop` is set, or raises.

    Order is kept per partition: batches are fingerprinted side by side, and sent in the order they were read. The
    loop never waits for a page: whatever one takes, the consumer is polled, and what is done is sent.
    """

    def __init__(self, log: Log, fingerprinter: Fingerprinter, context: RoleContext) -> None:
        self._log = log
        self._fingerprinter = fingerprinter
        self._context = context
        self._frame = context.settings.frame
        self._threads = context.settings.threads
        self._flows: dict[int, PartitionFlow] = {}
        self._working: deque[tuple[ShareBatch, Future[list[ShareFrames]]]] = deque()
        self._sent: deque[SentBatch] = deque()
        self._bytes_sent = 0
        self._commits: dict[int, int] = {}
        self._committed_at = self._kept_at = 0.0
        self._read_at: dict[int, float] = {}
        """When a page of a partition was last read, or when reading the partition began."""
        self._failing_since: float | None = None
        self._checked = False
        self._intake = IntakeMetrics(context.metrics)
        self._pages = self._bad = self._set_aside = 0

    def run(self) -> None:
        """Raises WrongRecipe, LogError, and SimstreamError where too many pages are unreadable."""
        settings = self._context.settings
        self._context.health.starting(NAME, settings.give_up_s)
        info = self._log.topic(PAGES)
        check_topics(self._log, [FINGERPRINTS])
        check_recipe(self._log, self._fingerprinter.recipe_id)
        limits = PageLimits(max_record_bytes=settings.max_record_bytes)
        self._maker = ShareMaker(self._fingerprinter, info.name, info.id, limits, self._frame)
        self._gatherer = ShareGatherer(self._maker, self._frame.max_pages)
        with ExitStack() as stack:
            pool = ThreadPoolExecutor(settings.threads, thread_name_prefix=NAME)
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)  # a slow page is not waited for
            source = stack.enter_context(self._log.source(self._frame.linger_ms))
            while not self._context.stop.is_set():
                try:
                    self._session(source, pool)
                except DeliveryFailed as error:
                    self._forget()
                    self._pause(error)
                    source.restart()

    def _session(self, source: PageConsumer, pool: ThreadPoolExecutor) -> None:
        """Work with one pair of appenders until the end, or until a delivery fails."""
        out, dead = self._log.appender(FINGERPRINTS), self._log.appender(DEAD_LETTERS)
        out.waiting = dead.waiting = partial(self._wait_for_room, source)
        try:
            while not self._context.stop.is_set():
                self._read(source)
                self._begin(pool)
                self._send(out, dead)
                self._pass_holes(source, out, HOLE_S)
                self._acknowledge(out.acknowledged(), dead_letters.admitted(dead.acknowledged))
                self._commit(source)
                self._context.metrics.last_poll.labels(NAME).set_to_current_time()
                self._context.health.turn(NAME, *self._state(source, out))
            self._finish(source, pool, out, dead)
        except DeliveryFailed:
            out.discard()
            dead.discard()
            raise
        for appender in (out, dead):
            if self._sent:  # the log did not take all of it in time
                appender.discard()
            else:
                appender.close()

    def _pause(self, error: DeliveryFailed) -> None:
        """Wait before starting again, the longer the longer it fails; give up after `give_up_after`."""
        now = time.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        failing = now - self._failing_since
        if failing > self._context.settings.give_up_s:
            raise error
        _log.warning("%s; starting again from the committed offsets", error)
        self._context.metrics.restarts.inc()
        self._context.metrics.last_poll.labels(NAME).set_to_current_time()
        self._context.health.waits(NAME, f"the log takes no frames: {error.what}", self._context.settings.give_up_s)
        self._context.stop.wait(min(MAX_PAUSE_S, 0.1 + failing / 2))

    def _state(self, source: PageConsumer, out: Appender) -> tuple[bool, str]:
        """Whether it is ready, and why not."""
        if self._failing_since is not None:
            return False, "the log takes no frames"
        if not source.answers():
            return False, "the log does not answer"
        waiting = self._sent[0].frames - out.acknowledged() if self._sent else 0
        stuck = waiting > 0 and time.monotonic() - self._committed_at > 10
        return not stuck, "frames are not acknowledged" if stuck else ""

    def _read(self, source: PageConsumer) -> None:
        """Poll for as long as nothing else is to be done; where there is no room, stay a member of the group."""
        if self._has_room():
            self._take(source, source.poll(self._frame.max_pages, self._poll_s()))
            return
        if self._working:
            wait_for([self._working[0][1]], FULL_S)  # those behind it cannot be sent before it
        else:
            self._context.stop.wait(FULL_S)  # frames wait for their acknowledgement
        if time.monotonic() - self._kept_at > KEEP_EVERY_S:
            self._take(source, source.poll(0, 0.0))

    def _wait_for_room(self, source: PageConsumer) -> None:
        """Stay a member of the group while the log's own queue is full, and tell health why no page is read."""
        self._context.health.turn(NAME, False, "the log takes no frames: its queue is full")
        if time.monotonic() - self._kept_at > KEEP_EVERY_S:
            self._take(source, source.poll(0, 0.0))

    def _has_room(self) -> bool:
        gatherer = self._gatherer
        pages = gatherer.pages + sum(batch.pages for batch, _ in self._working)
        size = gatherer.bytes + sum(batch.bytes for batch, _ in self._working)
        max_pages = (self._threads + 1) * self._frame.max_pages
        return pages < max_pages and size < MAX_BYTES and self._bytes_sent < MAX_SENT_BYTES

    def _poll_s(self) -> float:
        """How long a poll may wait for its first record."""
        if self._working:
            return 0.0 if self._working[0][1].done() else TURN_S
        if self._gatherer.pages:
            return self._gatherer.wait_s()
        return SENT_S if self._sent or self._commits else IDLE_S

    def _take(self, source: PageConsumer, polled: PollResult) -> None:
        """Note which partitions came and went, and gather the records."""
        self._kept_at = time.monotonic()
        if polled.stopped or any(start.partition not in self._flows for start in polled.started):
            self._context.metrics.rebalances.inc()
        for partition in polled.stopped:
            self._intake.stopped(partition)
            if flow := self._flows.pop(partition, None):
                flow.running = False
            self._commits.pop(partition, None)
        for start in polled.started:
            self._intake.started(start)
            if flow := self._flows.get(start.partition):
                flow.running = False
            self._flows[start.partition] = PartitionFlow(start.partition, start.offset, start.first)
        read = {record.partition for record in polled.records} | {start.partition for start in polled.started}
        self._read_at |= dict.fromkeys(read, self._kept_at)
        if polled.records:
            began = time.perf_counter()
            self._gatherer.add(polled.records, self._flows)
            self._context.metrics.batch.labels("decode").observe(time.perf_counter() - began)
            self._intake.read(polled.records)
        self._intake.lag(source)

    def _begin(self, pool: ThreadPoolExecutor) -> None:
        """Begin to work on what is full, and on what has waited long enough while a thread has nothing to do."""
        while batch := self._gatherer.take(idle=len(self._working) < self._threads):
            if self._working or not batch.is_quick:
                self._working.append((batch, pool.submit(self._make, batch)))
            else:
                self._working.append((batch, self._made(batch)))

    def _made(self, batch: ShareBatch) -> Future[list[ShareFrames]]:
        """A batch that this thread makes itself."""
        future: Future[list[ShareFrames]] = Future()
        future.set_result(self._make(batch))
        return future

    def _make(self, batch: ShareBatch) -> list[ShareFrames]:
        began = time.perf_counter()
        made = self._maker.make(batch)
        self._context.metrics.batch.labels("fingerprint").observe(time.perf_counter() - began)
        return made

    def _send(self, out: Appender, dead: Appender) -> None:
        """Send what is made, in the order in which it was read."""
        while self._working and self._working[0][1].done():
            made = self._working.popleft()[1].result()
            running = [share for share in made if share.share.flow.running]
            written = lost = 0
            for share in running:
                for data in share.frames:
                    written = out.append(data, partition=0)
                for record, page in share.unreadable:
                    lost = dead_letters.append(dead, record, page)
            to = [(share.share.flow, share.share.header.to) for share in running]
            size = sum(share.bytes for share in running)
            self._sent.append(SentBatch(to, written, lost, size, came([share.share for share in running])))
            self._bytes_sent += size
            self._count(running)

    def _pass_holes(self, source: PageConsumer, out: Appender, quiet_s: float) -> None:
        """Let log and commit pass the offsets that hold no page, such as markers of transactions.

        Only in partitions that brought no page for `quiet_s` seconds and have nothing under way.
        """
        edge = time.monotonic() - quiet_s
        quiet = [flow for flow in self._flows.values() if self._read_at.get(flow.partition, 0.0) <= edge]
        if not quiet:
            return
        busy = self._gatherer.partitions.union(*(batch.partitions for batch, _ in self._working))
        positions = source.positions()
        for flow in quiet:
            to = positions.get(flow.partition, 0)
            if to > flow.next and flow.partition not in busy:
                data = self._maker.hole(flow, to)
                self._sent.append(SentBatch([(flow, to)], out.append(data, partition=0), 0, len(data), {}))
                self._bytes_sent += len(data)

    def _count(self, shares: Sequence[ShareFrames]) -> None:
        metrics = self._context.metrics
        pages = [page for made in shares for page in made.share.pages]
        reasons = Counter(page.reason for made in shares for _, page in made.unreadable)
        for reason, number in reasons.items():
            metrics.dead_letters.labels(reason).inc(number)
        metrics.texts_cut.inc(sum(page.cut for page in pages))
        metrics.key_differs.inc(sum(page.key_differs for page in pages))
        set_aside = self._fingerprinter.pages_set_aside
        metrics.set_aside.inc(set_aside - self._set_aside)
        self._set_aside = set_aside
        ratio = self._context.settings.dead_letters.stop_ratio
        self._pages += len(pages)
        self._bad += sum(reasons.values())
        if self._pages >= _RATIO_PAGES:
            if ratio and self._bad / self._pages > ratio:
                raise SimstreamError(
                    f"{self._bad} of the last {self._pages} pages are unreadable",
                    "look at the topic dead-letters, or raise dead_letters.stop_ratio",
                )
            self._pages = self._bad = 0

    def _acknowledge(self, written: int, lost: int) -> None:
        """Move what is safely written from sent to committable: an unbroken run, in order."""
        while self._sent and self._sent[0].frames <= written and self._sent[0].dead_letters <= lost:
            sent = self._sent.popleft()
            self._bytes_sent -= sent.bytes
            self._failing_since = None
            self._intake.acknowledged(sent.came)
            self._commits.update((flow.partition, to) for flow, to in sent.to if flow.running)

    def _commit(self, source: PageConsumer, at_once: bool = False) -> None:
        now = time.monotonic()
        if not self._commits:
            if not self._sent:
                self._committed_at = now
            return
        if at_once or now - self._committed_at >= COMMIT_EVERY_S:
            if not self._checked:
                self._context.health.waits(NAME, "reads the log's recipe", self._context.settings.give_up_s)
                check_recipe(self._log, self._fingerprinter.recipe_id)
                self._checked = True
            source.commit(self._commits)
            self._commits = {}
            self._committed_at = now

    def _finish(self, source: PageConsumer, pool: ThreadPoolExecutor, out: Appender, dead: Appender) -> None:
        """Work on what was read, send and commit it, within the time that stopping may take; the rest is read
        again at the next start."""
        began, timeout = time.monotonic(), self._context.settings.stop_timeout_s
        for batch in self._gatherer.take_all():
            self._working.append((batch, pool.submit(self._make, batch)))
        while self._working and time.monotonic() < began + timeout / 2:
            wait_for([self._working[0][1]], FULL_S)
            self._send(out, dead)
            self._context.health.beat(NAME)
        for _, future in self._working:
            future.cancel()
        self._pass_holes(source, out, 0.0)

        def left() -> float:
            return max(0.1, began + 0.8 * timeout - time.monotonic())

        self._acknowledge(out.flush(left()), dead_letters.admitted(lambda: dead.flush(left())))
        self._commit(source, at_once=True)

    def _forget(self) -> None:
        for _, future in self._working:
            future.cancel()
        for flow in self._flows.values():
            flow.running = False
        self._gatherer.forget()
        self._working.clear()
        self._sent.clear()
        self._bytes_sent = 0
        self._commits.clear()
