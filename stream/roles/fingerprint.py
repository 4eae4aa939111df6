"""The fingerprinter: reads `pages`, writes frames, and commits only what the log has acknowledged."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import ExitStack
from dataclasses import dataclass

from stream.errors import DeliveryFailed, SimstreamError
from stream.log.base import DEAD_LETTERS, FINGERPRINTS, PAGES, Appender, Log, Source
from stream.model import Record
from stream.roles import dead_letters
from stream.roles.context import Context
from stream.roles.first_frame import check_recipe
from stream.roles.intake import Intake
from stream.roles.shares import Flow, Made, Share, ShareMaker
from stream.text.fingerprinter import Fingerprinter
from stream.wire.page import PageLimits

NAME = "fingerprint"
COMMIT_EVERY_S = 0.5
MOST_BYTES = 32 << 20
"""Bytes of pages that are worked on at once; a polled batch always passes."""
MOST_SENT = 10_000
"""Shares that may wait for their acknowledgement."""
IDLE_S = 0.2
"""How long a poll may wait where nothing is under way: it ends with the first record all the same."""
LONGEST_PAUSE_S = 5.0
_RATIO_PAGES = 1_000  # a share of unreadable pages is judged over at least so many
_log = logging.getLogger("simstream.fingerprint")


@dataclass(frozen=True, slots=True)
class Sent:
    """A share whose frames and dead letters are on their way: done when both counts are acknowledged."""

    flow: Flow
    to: int
    frames: int
    dead_letters: int
    came: Mapping[int, int]
    """How many of its pages came at which ms."""


class FingerprintRole:
    """One member of the group of fingerprinters. `run` works until `context.stop` is set, or raises.

    Order is kept per partition: shares are fingerprinted side by side, and sent in the order they were read.
    """

    def __init__(self, log: Log, fingerprinter: Fingerprinter, context: Context) -> None:
        self._log = log
        self._fingerprinter = fingerprinter
        self._context = context
        self._frame = context.settings.frame
        self._flows: dict[int, Flow] = {}
        self._working: deque[tuple[Share, Future[Made]]] = deque()
        self._pages_working = self._bytes_working = 0
        self._sent: deque[Sent] = deque()
        self._commits: dict[int, int] = {}
        self._committed_at = 0.0
        self._failing_since: float | None = None
        self._checked = False
        self._intake = Intake(context.metrics)
        self._pages = self._bad = 0

    def run(self) -> None:
        """Raises WrongRecipe, LogError, and SimstreamError where too many pages are unreadable."""
        settings = self._context.settings
        self._context.health.starting(NAME, settings.give_up_s)
        info = self._log.topic(PAGES)
        check_recipe(self._log, self._fingerprinter.recipe_id)
        limits = PageLimits(max_record_bytes=settings.max_record_bytes)
        self._maker = ShareMaker(self._fingerprinter, info.name, info.id, limits, self._frame)
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(settings.threads, thread_name_prefix=NAME))
            source = stack.enter_context(self._log.source())
            while not self._context.stop.is_set():
                try:
                    self._session(source, pool)
                except DeliveryFailed as error:
                    self._forget()
                    self._pause(error)
                    source.restart()

    def _session(self, source: Source, pool: ThreadPoolExecutor) -> None:
        """Work with one pair of appenders until the end, or until a delivery fails."""
        out, dead = self._log.appender(FINGERPRINTS), self._log.appender(DEAD_LETTERS)
        most_pages = self._context.settings.threads * self._frame.max_pages
        try:
            while not self._context.stop.is_set():
                if len(self._sent) < MOST_SENT and self._poll(source, pool) < self._frame.max_pages:
                    # Nothing more is there to be read: a small share goes out in this turn, not in the next.
                    wait_for([future for _, future in self._working], self._frame.linger_ms / 1000)
                self._send(out, dead, most_pages, MOST_BYTES)
                self._acknowledge(out.acknowledged(), dead_letters.admitted(dead.acknowledged))
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
        self._context.health.turn(NAME, False, f"the log takes no frames: {error.what}")
        self._context.stop.wait(min(LONGEST_PAUSE_S, 0.1 + failing / 2))

    def _state(self, source: Source, out: Appender) -> tuple[bool, str]:
        """Whether it is ready, and why not."""
        if self._failing_since is not None:
            return False, "the log takes no frames"
        if not source.answers():
            return False, "the log does not answer"
        waiting = self._sent[0].frames - out.acknowledged() if self._sent else 0
        stuck = waiting > 0 and time.monotonic() - self._committed_at > 10
        return not stuck, "frames are not acknowledged" if stuck else ""

    def _poll(self, source: Source, pool: ThreadPoolExecutor) -> int:
        """Begin to work on what has come; returns how many pages that is."""
        idle = not (self._working or self._sent or self._commits)
        polled = source.poll(self._frame.max_pages, IDLE_S if idle else self._frame.linger_ms / 1000)
        came = [start for start in polled.started if start.partition not in self._flows]
        if came or polled.stopped:
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
            self._flows[start.partition] = Flow(start.partition, start.offset, start.first)
        shares: dict[int, list[Record]] = {}
        for record in polled.records:
            shares.setdefault(record.partition, []).append(record)
        for partition, records in shares.items():
            began = time.perf_counter()
            share = self._maker.share(self._flows[partition], records)
            self._context.metrics.batch.labels("decode").observe(time.perf_counter() - began)
            self._working.append((share, pool.submit(self._make, share)))
            self._pages_working += len(records)
            self._bytes_working += share.bytes
            self._intake.read(share)
        self._intake.lag(source)
        return len(polled.records)

    def _make(self, share: Share) -> Made:
        began = time.perf_counter()
        made = self._maker.make(share)
        self._context.metrics.batch.labels("fingerprint").observe(time.perf_counter() - began)
        return made

    def _send(self, out: Appender, dead: Appender, most_pages: int, most_bytes: int) -> None:
        """Send what is made, in order; while more than so much is worked on, the oldest share is waited for."""
        while self._working and (
            self._pages_working > most_pages or self._bytes_working > most_bytes or self._working[0][1].done()
        ):
            share, future = self._working[0]
            self._await(future)
            made = future.result()
            self._working.popleft()
            self._pages_working -= made.pages
            self._bytes_working -= share.bytes
            if not share.flow.running:
                continue
            written = lost = 0
            for data in made.frames:
                written = out.append(data, partition=0)
            for record, page in made.unreadable:
                lost = dead_letters.append(dead, record, page)
            self._sent.append(Sent(share.flow, share.header.to, written, lost, share.came()))
            self._count(made)

    def _await(self, future: Future[Made]) -> None:
        """Wait, and say meanwhile that it goes on: pages of HTML may take seconds each."""
        while not future.done():
            wait_for([future], timeout=1.0)
            self._context.health.beat(NAME)
            self._context.metrics.last_poll.labels(NAME).set_to_current_time()

    def _count(self, made: Made) -> None:
        metrics = self._context.metrics
        for reason, number in made.reasons().items():
            metrics.dead_letters.labels(reason).inc(number)
        metrics.texts_cut.inc(made.cut)
        metrics.key_differs.inc(made.key_differs)
        ratio = self._context.settings.dead_letters.stop_ratio
        self._pages += made.pages
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
            self._failing_since = None
            self._intake.acknowledged(sent.came)
            if sent.flow.running:
                self._commits[sent.flow.partition] = sent.to

    def _commit(self, source: Source, at_once: bool = False) -> None:
        now = time.monotonic()
        if not self._commits:
            if not self._sent:
                self._committed_at = now
            return
        if at_once or now - self._committed_at >= COMMIT_EVERY_S:
            if not self._checked:
                check_recipe(self._log, self._fingerprinter.recipe_id)
                self._checked = True
            source.commit(self._commits)
            self._commits = {}
            self._committed_at = now

    def _finish(self, source: Source, out: Appender, dead: Appender) -> None:
        """Send, acknowledge and commit what is under way, within the time that stopping may take."""
        self._send(out, dead, most_pages=0, most_bytes=0)
        timeout = self._context.settings.stop_timeout_s / 2
        self._acknowledge(out.flush(timeout), dead_letters.admitted(lambda: dead.flush(timeout)))
        self._commit(source, at_once=True)

    def _forget(self) -> None:
        for _, future in self._working:
            future.cancel()
        for flow in self._flows.values():
            flow.running = False
        self._working.clear()
        self._pages_working = self._bytes_working = 0
        self._sent.clear()
        self._commits.clear()
