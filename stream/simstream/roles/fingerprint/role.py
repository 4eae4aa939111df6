"""Runs the fingerprinter's loop: reads `pages`, writes frames, commits what the log has acknowledged."""

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

from simstream.errors import DeliveryFailed, DiskFull
from simstream.log.base import Appender, Log, PageConsumer, PollResult
from simstream.log.options import DEAD_LETTERS, FINGERPRINTS, PAGES
from simstream.model import Record
from simstream.registry.schemas import book_of, limits_of
from simstream.roles.context import RoleContext
from simstream.roles.fingerprint import dead_letters
from simstream.roles.fingerprint.absent_fields import AbsentFields, refuse_absent_paths
from simstream.roles.fingerprint.first_frame import check_recipe, warn_of_other_pages
from simstream.roles.fingerprint.intake_metrics import IntakeMetrics
from simstream.roles.fingerprint.lost_commits import warn_of_lost_commits
from simstream.roles.fingerprint.schema_wait import SchemaWait
from simstream.roles.fingerprint.share_gatherer import ShareGatherer
from simstream.roles.fingerprint.shares import PartitionFlow, ShareBatch, ShareFrames, ShareMaker, count_arrivals
from simstream.roles.fingerprint.unreadable_share import UnreadableShare
from simstream.roles.topics import check_topics
from simstream.text.fingerprinter import Fingerprinter
from simstream.wire.page_headers import HeaderChoice

NAME = "fingerprint"
COMMIT_EVERY_S = 0.5
MAX_BYTES = 32 << 20
"""No page is read while this many bytes of pages are gathered or in work. One poll may exceed the limit."""
MAX_SENT_BYTES = 16 << 20
"""No page is read while this many bytes of frames and dead letters are not acknowledged.

The client's queue holds far more, so appending never waits.
"""
IDLE_S = 0.2
"""Seconds that a poll may wait while no batch is in work; it ends with the first record."""
TURN_S = 0.002
"""Seconds that a poll may wait while a batch is in work, which is sent as soon as it is done."""
SENT_S = 0.02
"""Seconds that a poll may wait while acknowledgements are due."""
FULL_S = 0.05
"""Seconds that one wait for room takes."""
KEEP_EVERY_S = 1.0
"""Seconds between two signs of life to the group while there is no room, however long a page takes."""
HOLE_S = 10.0
"""Seconds without a page of a partition. Then the offsets behind its last page (markers of transactions) become a
frame without pages. Otherwise the commit would stay before a marker, and a restart would be refused once all pages
have expired."""
MAX_PAUSE_S = 5.0
_logger = logging.getLogger("simstream.fingerprint")


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch whose frames and dead letters are on their way. It is done when both counts are acknowledged."""

    to: Sequence[tuple[PartitionFlow, int]]
    """The flows of its shares, each with the offset behind the share."""
    frames: int
    dead_letters: int
    bytes: int
    """The bytes of its frames and dead letters."""
    arrival_counts: Mapping[int, int]
    """How many of its pages came, by arrival in ms."""


class FingerprintRole:
    """One member of the group of fingerprinters. `run` works until `context.stop` is set, or raises.

    Each partition keeps its order: batches are fingerprinted side by side, and sent in the order of reading. The
    loop never waits for a page: it polls the consumer and sends finished batches, however long a page takes.
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
        self._committed_at = self._kept_at = self._holes_at = 0.0
        self._read_at: dict[int, float] = {}
        """When a page of a partition was last read, or when reading the partition began."""
        self._failing_since: float | None = None
        self._full_since: float | None = None
        """Since when a local log has no room for a commit. Acknowledged frames do not end this, only a commit."""
        self._obstacle = ""
        self._checked = False
        self._intake = IntakeMetrics(context.metrics)
        self._set_aside = 0
        self._unreadable = UnreadableShare(context.settings.dead_letters.stop_ratio)

    def run(self) -> None:
        """Work until `context.stop` is set. Raises WrongRecipe, LogError, and SimstreamError if too many pages are
        unreadable."""
        settings = self._context.settings
        self._context.health.expect(NAME, settings.give_up_s)
        info = self._log.topic(PAGES)
        check_topics(self._log, [FINGERPRINTS])
        warn_of_other_pages(self._log, check_recipe(self._log, self._fingerprinter.recipe_id))
        warn_of_lost_commits(self._log)
        book = book_of(settings)
        self._schemas = SchemaWait(book, self._context.metrics, settings.give_up_s)
        limits = limits_of(settings, book)
        self._absent = AbsentFields(limits)
        refuse_absent_paths(self._log, limits, self._schemas.admit_soon)
        headers = HeaderChoice(settings.verdict_header_names)
        self._maker = ShareMaker(self._fingerprinter, info.name, info.id, limits, self._frame, headers)
        self._gatherer = ShareGatherer(self._maker, self._frame.max_pages, self._context.publish_pace)
        with ExitStack() as stack:
            pool = ThreadPoolExecutor(settings.threads, thread_name_prefix=NAME)
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)  # the end does not wait for a slow page
            stack.callback(self._schemas.forget)
            consumer = stack.enter_context(self._log.open_consumer(self._frame.linger_ms))
            while not self._context.stop.is_set():
                try:
                    self._session(consumer, pool)
                except DeliveryFailed as error:
                    self._forget()
                    self._pause(error)
                    if not self._context.stop.is_set():  # it may ask the group for minutes
                        consumer.restart()

    def _session(self, consumer: PageConsumer, pool: ThreadPoolExecutor) -> None:
        """Work with one pair of appenders until the end, or until a delivery fails."""
        began = time.monotonic()
        with self._log.open_appender(FINGERPRINTS) as out, self._log.open_appender(DEAD_LETTERS) as dead:
            out.waiting = dead.waiting = partial(self._wait_for_room, consumer)
            self._context.health.turn(NAME, False, "begins to read")  # from here on a stop waits for the work
            while not self._context.stop.is_set():
                self._read(consumer)
                self._begin(pool)
                self._send(out, dead)
                self._pass_holes(consumer, out, HOLE_S)
                self._acknowledge(out.acknowledged(), dead_letters.skip_refused(dead.acknowledged))
                self._commit(consumer)
                if (
                    self._failing_since is not None
                    and time.monotonic() - began > HOLE_S
                    and self._is_idle(consumer)
                ):
                    self._failing_since = None  # nothing is left that the log could refuse
                self._context.health.turn(NAME, *self._state(consumer, out, dead))
            self._finish(consumer, pool, out, dead)
            if self._sent:  # the log did not take all frames in time
                out.discard()
                dead.discard()

    def _pause(self, error: DeliveryFailed) -> None:
        """Wait before the next start. Each failure makes the wait longer; after `give_up_after` raise the error."""
        now = time.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        failing = now - self._failing_since
        if failing > self._context.settings.give_up_s:
            raise error
        _logger.warning("%s; starting again from the committed offsets", error)
        self._context.metrics.restarts.inc()
        self._context.health.note_wait(
            NAME, f"the log takes no frames: {error.what}", self._context.settings.give_up_s
        )
        self._context.stop.wait(min(MAX_PAUSE_S, 0.1 + failing / 2))

    def _is_idle(self, consumer: PageConsumer) -> bool:
        """Return whether nothing is in work, and the member has read and sent all that its partitions have."""
        positions = consumer.positions()
        return (
            not (self._working or self._sent or self._gatherer.pages or self._schemas.is_waiting)
            and all(positions.get(flow.partition, 0) <= flow.next for flow in self._flows.values())
            and not any(consumer.lag().values())
            and consumer.answers()
        )

    def _state(self, consumer: PageConsumer, out: Appender, dead: Appender) -> tuple[bool, str]:
        """Return whether the role is ready, and why not."""
        if self._failing_since is not None:
            return False, "the log takes no frames"
        if self._full_since is not None:
            return False, self._obstacle
        if not consumer.answers():
            return False, "the log does not answer"
        trouble = self._schemas.trouble
        if self._sent and time.monotonic() - self._committed_at > 10:
            if self._sent[0].frames > out.acknowledged():
                trouble = "frames are not acknowledged"
            elif self._sent[0].dead_letters > dead_letters.skip_refused(dead.acknowledged):
                trouble = "dead letters are not acknowledged"
        return not trouble, trouble

    def _read(self, consumer: PageConsumer) -> None:
        """Poll until there is other work. Without room or schema only stay a member of the group."""
        if self._has_room() and not self._schemas.is_waiting:
            self._take(consumer, consumer.poll(self._frame.max_pages, self._poll_s()))
            return
        if self._schemas.is_waiting:
            self._schemas.wait(TURN_S if self._working else FULL_S)
            self._gather(self._schemas.admit())
        elif self._working:
            wait_for([self._working[0][1]], FULL_S)  # batches behind it cannot be sent before it
        else:
            self._context.stop.wait(FULL_S)  # frames wait for their acknowledgement
        if time.monotonic() - self._kept_at > KEEP_EVERY_S:
            self._take(consumer, consumer.poll(0, 0.0))

    def _wait_for_room(self, consumer: PageConsumer) -> None:
        """Stay a member of the group while the log's queue is full, and tell health why no page is read."""
        self._context.health.turn(NAME, False, "the log takes no frames: its queue is full")
        if time.monotonic() - self._kept_at > KEEP_EVERY_S:
            self._take(consumer, consumer.poll(0, 0.0))

    def _has_room(self) -> bool:
        gatherer = self._gatherer
        pages = gatherer.pages + sum(batch.pages for batch, _ in self._working)
        size = gatherer.bytes + sum(batch.bytes for batch, _ in self._working)
        max_pages = (self._threads + 1) * self._frame.max_pages
        return pages < max_pages and size < MAX_BYTES and self._bytes_sent < MAX_SENT_BYTES

    def _poll_s(self) -> float:
        """Return the seconds that a poll may wait for its first record."""
        if self._working:
            return 0.0 if self._working[0][1].done() else TURN_S
        if self._gatherer.pages:
            return self._gatherer.wait_s()
        return SENT_S if self._sent or self._commits else IDLE_S

    def _take(self, consumer: PageConsumer, polled: PollResult) -> None:
        """Note which partitions came and went, and gather the records."""
        self._kept_at = time.monotonic()
        if polled.stopped or any(start.partition not in self._flows for start in polled.started):
            self._context.metrics.rebalances.inc()
        for partition in polled.stopped:
            self._intake.note_stop(partition)
            if flow := self._flows.pop(partition, None):
                flow.running = False
            self._commits.pop(partition, None)
            self._schemas.drop(partition)
        for start in polled.started:
            self._intake.note_start(start)
            self._schemas.drop(start.partition)
            if flow := self._flows.get(start.partition):
                flow.running = False
            self._flows[start.partition] = PartitionFlow(start.partition, start.offset, start.first)
        read = {record.partition for record in polled.records} | {start.partition for start in polled.started}
        self._read_at |= dict.fromkeys(read, self._kept_at)
        if polled.records:
            self._intake.count_read(polled.records)
            self._gather(self._schemas.admit(polled.records))
        self._intake.set_lag(consumer)

    def _gather(self, records: Sequence[Record]) -> None:
        """Decode records, and gather their pages."""
        if records:
            began = time.perf_counter()
            self._absent.look(records)
            self._gatherer.add(records, self._flows)
            self._context.metrics.batch.labels("decode").observe(time.perf_counter() - began)

    def _begin(self, pool: ThreadPoolExecutor) -> None:
        """Begin to work on full batches, and on batches that have waited long enough while a thread is idle."""
        while batch := self._gatherer.take(idle=len(self._working) < self._threads):
            made: Future[list[ShareFrames]] = Future()
            if self._working or not batch.is_quick:
                made = pool.submit(self._make, batch)
            else:
                made.set_result(self._make(batch))
            self._working.append((batch, made))

    def _make(self, batch: ShareBatch) -> list[ShareFrames]:
        began = time.perf_counter()
        made = self._maker.make(batch)
        seconds = time.perf_counter() - began
        self._context.metrics.batch.labels("fingerprint").observe(seconds)
        _logger.debug("fingerprinted %d pages in %.1f ms", sum(len(one.share.pages) for one in made), 1e3 * seconds)
        return made

    def _send(self, out: Appender, dead: Appender) -> None:
        """Send finished batches, in the order of reading."""
        while self._working and self._working[0][1].done():
            made = self._working.popleft()[1].result()
            running = [share for share in made if share.share.flow.running]
            written = lost = 0
            for share in running:
                for data in share.frames:
                    written = out.append(data, partition=0)
                for record, page in share.unreadable:
                    lost = max(lost, dead_letters.append(dead, record, page))
            to = [(share.share.flow, share.share.header.to) for share in running]
            size = sum(share.bytes for share in running)
            self._sent.append(
                SentBatch(to, written, lost, size, count_arrivals([share.share for share in running]))
            )
            self._bytes_sent += size
            self._count(running)

    def _pass_holes(self, consumer: PageConsumer, out: Appender, quiet_s: float) -> None:
        """Let log and commit pass the offsets without pages, such as markers of transactions.

        Only in partitions that had no page for `quiet_s` seconds and have no batch in work.
        """
        now = time.monotonic()
        if quiet_s and now < self._holes_at + HOLE_S / 10:  # a look at every partition
            return
        self._holes_at, edge = now, now - quiet_s
        quiet = [flow for flow in self._flows.values() if self._read_at.get(flow.partition, 0.0) <= edge]
        if not quiet:
            return
        working = (batch.partitions for batch, _ in self._working)
        busy = self._gatherer.partitions.union(self._schemas.partitions, *working)
        positions = consumer.positions()
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
        metrics.headers_left_out.inc(sum(made.headers_left_out for made in shares))
        metrics.key_differs.inc(sum(page.key_differs for page in pages))
        set_aside = self._fingerprinter.pages_set_aside
        metrics.set_aside.inc(set_aside - self._set_aside)
        self._set_aside = set_aside
        self._unreadable.count(len(pages), [page.detail for made in shares for _, page in made.unreadable])

    def _acknowledge(self, written: int, lost: int) -> None:
        """Move acknowledged batches from sent to committable: an unbroken run, in order."""
        while self._sent and self._sent[0].frames <= written and self._sent[0].dead_letters <= lost:
            sent = self._sent.popleft()
            self._bytes_sent -= sent.bytes
            self._failing_since = None
            self._intake.count_acknowledged(sent.arrival_counts)
            self._commits.update((flow.partition, to) for flow, to in sent.to if flow.running)

    def _commit(self, consumer: PageConsumer, at_once: bool = False) -> None:
        now = time.monotonic()
        if not self._commits:
            if not self._sent:
                self._committed_at = now
            return
        if at_once or now - self._committed_at >= COMMIT_EVERY_S:
            if not self._checked:
                self._context.health.note_wait(NAME, "reads the log's recipe", self._context.settings.give_up_s)
                check_recipe(self._log, self._fingerprinter.recipe_id)
                self._checked = True
            self._committed_at = now  # also if it fails: it is tried again as soon as the next commit is due
            try:
                consumer.commit(self._commits)
            except DiskFull as error:
                self._note_full_disk(error, now)
                return
            _logger.debug("commits partitions up to these offsets: %s", self._commits)
            self._commits = {}
            self._full_since = None

    def _note_full_disk(self, error: DiskFull, now: float) -> None:
        """Note that there was no room for a commit. After `give_up_after` raise the error."""
        if self._full_since is None:
            self._full_since = now
            _logger.warning("%s; until there is room, a restart reads pages again", error.what)
        if now - self._full_since > self._context.settings.give_up_s:
            raise error
        self._obstacle = f"the log takes no commit: {error.what}"

    def _finish(self, consumer: PageConsumer, pool: ThreadPoolExecutor, out: Appender, dead: Appender) -> None:
        """Finish, send and commit the gathered pages within `stop_timeout`; the next start reads the rest again."""
        began, timeout = time.monotonic(), self._context.settings.stop_timeout_s
        for batch in self._gatherer.take_all():
            self._working.append((batch, pool.submit(self._make, batch)))
        while self._working and time.monotonic() < began + timeout / 2:
            wait_for([self._working[0][1]], FULL_S)
            self._send(out, dead)
            self._context.health.beat(NAME)
        for _, future in self._working:
            future.cancel()
        self._pass_holes(consumer, out, 0.0)

        def left() -> float:
            return max(0.1, began + 0.8 * timeout - time.monotonic())

        self._acknowledge(out.flush(left()), dead_letters.skip_refused(lambda: dead.flush(left())))
        self._commit(consumer, at_once=True)

    def _forget(self) -> None:
        for _, future in self._working:
            future.cancel()
        for flow in self._flows.values():
            flow.running = False
        self._gatherer.forget()
        self._schemas.forget()
        self._working.clear()
        self._sent.clear()
        self._bytes_sent = 0
        self._commits.clear()
        self._full_since = None
