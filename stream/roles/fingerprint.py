"""The fingerprinter: reads `pages`, writes frames, and commits only what the log has acknowledged."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import ExitStack
from dataclasses import dataclass

from stream.errors import DeliveryFailed, FrameDamaged, RecordTooLarge, SimstreamError, WrongRecipe
from stream.log.base import DEAD_LETTERS, FINGERPRINTS, PAGES, Appender, Log, Source
from stream.model import Kind, Page, Record
from stream.roles.context import Context
from stream.text.fingerprinter import Fingerprinter
from stream.wire import frame as frames
from stream.wire.page import PageLimits, decode

NAME = "fingerprint"
COMMIT_EVERY_S = 0.5
CUT_BYTES = 64 << 10  # what is kept of a key and a value that do not fit into a dead letter
_RATIO_PAGES = 1_000  # a share of unreadable pages is judged over at least so many
_log = logging.getLogger("simstream.fingerprint")


@dataclass(slots=True)
class Flow:
    """A partition that is being read: where its next frame begins, and whether that one is its first."""

    next: int
    first: bool
    running: bool = True


@dataclass(frozen=True, slots=True)
class Share:
    """One partition's share of a polled batch, on its way to frames."""

    partition: int
    flow: Flow
    header: frames.Header
    records: Sequence[Record]
    pages: Sequence[Page]


@dataclass(frozen=True, slots=True)
class Made:
    """What fingerprinting made of a share."""

    frames: Sequence[bytes]
    unreadable: Sequence[tuple[Record, Page]]
    cut: int
    key_differs: int


@dataclass(frozen=True, slots=True)
class Sent:
    """A share whose frames and dead letters are on their way: done when both counts are acknowledged."""

    share: Share
    frames: int
    dead_letters: int


class FingerprintRole:
    """One member of the group of fingerprinters. `run` works until `context.stop` is set, or raises.

    Order is kept per partition: shares are fingerprinted side by side, and sent in the order they were read.
    """

    def __init__(self, log: Log, fingerprinter: Fingerprinter, context: Context) -> None:
        self._log = log
        self._fingerprinter = fingerprinter
        self._context = context
        self._limits = PageLimits(max_record_bytes=context.settings.max_record_bytes)
        self._flows: dict[int, Flow] = {}
        self._working: deque[tuple[Share, Future[Made]]] = deque()
        self._waiting = 0  # pages in it
        self._sent: deque[Sent] = deque()
        self._commits: dict[int, int] = {}
        self._committed_at = 0.0
        self._checked = False
        self._pages = self._bad = 0

    def run(self) -> None:
        """Raises WrongRecipe, LogError, and SimstreamError where too many pages are unreadable."""
        self._context.health.starting(NAME)
        self._info = self._log.topic(PAGES)
        self._check_recipe()
        threads = self._context.settings.threads
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(threads, thread_name_prefix=NAME))
            source = stack.enter_context(self._log.source())
            while not self._context.stop.is_set():
                try:
                    self._session(source, pool)
                except DeliveryFailed as error:
                    _log.warning("%s; starting again from the committed offsets", error)
                    self._context.metrics.restarts.inc()
                    self._forget()
                    source.restart()

    def _session(self, source: Source, pool: ThreadPoolExecutor) -> None:
        """Work with one pair of appenders until the end, or until a delivery fails."""
        out, dead = self._log.appender(FINGERPRINTS), self._log.appender(DEAD_LETTERS)
        frame = self._context.settings.frame
        most = self._context.settings.threads * frame.max_pages
        try:
            while not self._context.stop.is_set():
                if self._poll(source, pool) < frame.max_pages:
                    # Nothing more is there to be read: a small share goes out in this turn, not in the next.
                    wait_for([future for _, future in self._working], frame.linger_ms / 1000)
                self._send(out, dead, most)
                self._acknowledge(out.acknowledged(), _admitted(dead.acknowledged))
                self._commit(source)
                self._context.metrics.last_poll.labels(NAME).set_to_current_time()
                self._context.health.turn(NAME, *self._state(source, out))
            self._finish(source, out, dead)
        except DeliveryFailed:
            out.discard()
            dead.discard()
            raise
        out.close()
        dead.close()

    def _state(self, source: Source, out: Appender) -> tuple[bool, str]:
        """Whether it is ready, and why not."""
        if not source.answers():
            return False, "the log does not answer"
        waiting = self._sent[0].frames - out.acknowledged() if self._sent else 0
        stuck = waiting > 0 and time.monotonic() - self._committed_at > 10
        return not stuck, "frames are not acknowledged" if stuck else ""

    def _poll(self, source: Source, pool: ThreadPoolExecutor) -> int:
        """Begin to work on what has come; returns how many pages that is."""
        settings = self._context.settings
        polled = source.poll(settings.frame.max_pages, settings.frame.linger_ms / 1000)
        for partition in polled.stopped:
            if flow := self._flows.pop(partition, None):
                flow.running = False
            self._commits.pop(partition, None)
        for start in polled.started:
            if flow := self._flows.get(start.partition):
                flow.running = False
            self._flows[start.partition] = Flow(start.offset, start.first)
        shares: dict[int, list[Record]] = {}
        for record in polled.records:
            shares.setdefault(record.partition, []).append(record)
        for partition, records in shares.items():
            share = self._share(partition, records)
            self._working.append((share, pool.submit(self._make, share)))
            self._waiting += len(records)
        if polled.records:
            self._context.metrics.pages.inc(len(polled.records))
            for partition, lag in source.lag().items():
                self._context.metrics.source_lag.labels(partition).set(lag)
        return len(polled.records)

    def _share(self, partition: int, records: list[Record]) -> Share:
        flow = self._flows[partition]
        header = frames.Header(
            recipe=self._fingerprinter.recipe_id,
            topic=self._info.name,
            topic_id=self._info.id,
            partition=partition,
            start=flow.next,
            to=records[-1].offset + 1,
            sketch_words=self._fingerprinter.sketch_words,
            first=flow.first,
        )
        flow.next, flow.first = header.to, False
        # Decoded here, beside the thread whose kernels hold no GIL, and not in it: decoding does hold it.
        pages = [decode(record, self._limits) for record in records]
        return Share(partition, flow, header, records, pages)

    def _make(self, share: Share) -> Made:
        """Fingerprint and encode: runs in a thread of the pool; the kernels hold no GIL."""
        began = time.perf_counter()
        pages = share.pages
        columns = self._fingerprinter.columns(pages)
        settings = self._context.settings.frame
        encoded = []
        header, start = share.header, share.header.start
        for begin, end in frames.cuts(columns, settings.max_pages, settings.max_bytes):
            to = header.to if end == len(columns) else int(columns.offset[end - 1]) + 1
            first = header.first and begin == 0
            part = frames.take(columns, begin, end)
            encoded.append(frames.encode(_replace(header, start=start, to=to, first=first), part))
            start = to
        unreadable = [
            (record, page)
            for record, page in zip(share.records, pages, strict=True)
            if page.kind == Kind.UNREADABLE
        ]
        self._context.metrics.batch.labels("fingerprint").observe(time.perf_counter() - began)
        return Made(encoded, unreadable, sum(p.cut for p in pages), sum(p.key_differs for p in pages))

    def _send(self, out: Appender, dead: Appender, most: int) -> None:
        """Send what is made, in order; while more than `most` pages wait, the oldest share is waited for."""
        while self._working and (self._waiting > most or self._working[0][1].done()):
            share, future = self._working[0]
            self._await(future)
            made = future.result()
            self._working.popleft()
            self._waiting -= len(share.records)
            if not share.flow.running:
                continue
            written = lost = 0
            for data in made.frames:
                written = out.append(data, partition=0)
            for record, page in made.unreadable:
                lost = self._dead_letter(dead, record, page)
            self._sent.append(Sent(share, written, lost))
            self._count(share, made)

    def _await(self, future: Future[Made]) -> None:
        """Wait, and say meanwhile that it goes on: pages of HTML may take seconds each."""
        while not future.done():
            wait_for([future], timeout=1.0)
            self._context.health.beat(NAME)

    def _dead_letter(self, dead: Appender, record: Record, page: Page) -> int:
        """Append the record as it came; cut, with a note, where the topic does not admit all of it."""
        value, key, note = record.value, record.key, page.detail or page.reason
        origin = [
            ("error-class", page.reason.encode()),
            ("source-topic", record.topic.encode()),
            ("source-partition", b"%d" % record.partition),
            ("source-offset", b"%d" % record.offset),
        ]
        try:
            headers = [*record.headers, ("error", note.encode("utf-8", "replace")), *origin]
            return dead.append(value, key=key, headers=headers, partition=0)
        except RecordTooLarge:
            note = f"{note} (cut: the record of {len(value or b'')} bytes does not fit)"
            value, key = value and value[:CUT_BYTES], key and key[:CUT_BYTES]
            return dead.append(
                value, key=key, headers=[("error", note.encode("utf-8", "replace")), *origin], partition=0
            )

    def _count(self, share: Share, made: Made) -> None:
        metrics = self._context.metrics
        for reason, number in Counter(page.reason for _, page in made.unreadable).items():
            metrics.dead_letters.labels(reason).inc(number)
        metrics.texts_cut.inc(made.cut)
        metrics.key_differs.inc(made.key_differs)
        ratio = self._context.settings.dead_letters.stop_ratio
        self._pages += len(share.records)
        self._bad += len(made.unreadable)
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
            if sent.share.flow.running:
                self._commits[sent.share.partition] = sent.share.header.to

    def _commit(self, source: Source, at_once: bool = False) -> None:
        now = time.monotonic()
        if not self._commits:
            if not self._sent:
                self._committed_at = now
            return
        if at_once or now - self._committed_at >= COMMIT_EVERY_S:
            if not self._checked:
                self._check_recipe()
                self._checked = True
            source.commit(self._commits)
            self._commits = {}
            self._committed_at = now

    def _finish(self, source: Source, out: Appender, dead: Appender) -> None:
        """Send, acknowledge and commit what is under way, within the time that stopping may take."""
        self._send(out, dead, most=0)
        timeout = self._context.settings.stop_timeout_s / 2
        self._acknowledge(out.flush(timeout), _admitted(lambda: dead.flush(timeout)))
        self._commit(source, at_once=True)

    def _forget(self) -> None:
        for _, future in self._working:
            future.cancel()
        for flow in self._flows.values():
            flow.running = False
        self._working.clear()
        self._waiting = 0
        self._sent.clear()
        self._commits.clear()

    def _check_recipe(self) -> None:
        """The first frame fixes the log's recipe: raises WrongRecipe where it is another's."""
        header = first_header(self._log)
        mine = self._fingerprinter.recipe_id
        if header is not None and header.recipe != mine:
            raise WrongRecipe(
                f"the log was begun under recipe {header.recipe}, this is {mine}",
                "use the same --recipe and versions, or another --prefix",
            )


def _admitted(look: Callable[[], int]) -> int:
    """What `look` says is acknowledged, over dead letters that only the broker refuses.

    That takes a topic whose limit was lowered while we run: the page still gets its verdict, and the log says
    that its dead letter is missing.
    """
    while True:
        try:
            return look()
        except RecordTooLarge as error:
            _log.error("a dead letter is lost, the broker does not admit it: %s", error.what)


def first_header(log: Log) -> frames.Header | None:
    """The header of the log's first readable frame, None while there is none."""
    with log.reader(FINGERPRINTS, 0) as reader:
        while True:
            at_end = reader.caught_up()
            records = reader.poll(1, 0.2)
            for record in records:
                try:
                    return frames.decode(record.value or b"").header
                except FrameDamaged:
                    continue
            if not records and at_end:
                return None


def _replace(header: frames.Header, start: int, to: int, first: bool) -> frames.Header:
    return frames.Header(
        header.recipe, header.topic, header.topic_id, header.partition, start, to, header.sketch_words, first
    )
