"""Runs the loop of the elected judge, until the judge ends or a newer judge fences it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, repeat

from simstream.judge.acceptor import LogPlace
from simstream.log.base import Election, OutgoingVerdict, Publisher, Reader
from simstream.model import Record, Verdict
from simstream.roles.context import RoleContext
from simstream.roles.judge.log_follower import FRAMES_A_POLL, NAME
from simstream.roles.judge.log_judge import JudgedFrame, LogJudge, in_batches
from simstream.roles.judge.outbox import CommittedBatch, PendingFrame, VerdictOutbox
from simstream.roles.judge.snapshots import NoSnapshots
from simstream.roles.judge.verdict_format import VerdictFormat
from simstream.telemetry.metrics import RisingCounter
from simstream.telemetry.tracing import TracedPage, is_sampled
from simstream.wire import page_headers
from simstream.wire import position as positions
from simstream.wire.page_headers import FORMAT, FORMAT_NUMBER, VERDICT, Headers

_logger = logging.getLogger("simstream.judge")
SLOW_S = 3.0
"""Seconds. A commit that takes longer makes the judge unready."""
MAX_UNPUBLISHED_FRAMES = 256
"""After so many frames without verdicts their position is published, since matchers do not run far ahead of it."""
LOOK_EVERY_S = 1.0
"""Seconds between two looks for a newer publisher, while the election is lost."""


class VerdictPublisher:
    """Judges new frames and hands the verdicts to an outbox. Its state begins at the committed position."""

    def __init__(
        self,
        log_id: str,
        reader: Reader,
        log_judge: LogJudge,
        snapshots: NoSnapshots,
        context: RoleContext,
        verdict_format: VerdictFormat,
    ) -> None:
        self._log_id = log_id
        self._format = verdict_format
        self._reader = reader
        self._log_judge = log_judge
        self._snapshots = snapshots
        self._context = context
        self._elected = context.metrics.elected.labels(NAME)
        self._transactions = RisingCounter(context.metrics.transactions)
        self._lost = False
        self._last_ms: int | None = None
        """When the last judged frame came to the log; None at the log's end."""
        self._next_look = 0.0
        self._handed_over = self._published = log_judge.next_frame
        """The frame up to which the outbox has the verdicts, and the frame up to which they are committed."""

    def run(self, publisher: Publisher, election: Election) -> int:
        """Publish until the service stops, and return the frame up to which verdicts are committed.

        Raises what `JudgeRole.run` raises.
        """
        self._elected.set(1)
        self._publisher = publisher
        # From here on a stop must wait for what is judged: the role has begun to work.
        self._context.health.turn(NAME, False, "begins to publish")
        with VerdictOutbox(publisher, self._committed, self._waiting, self._context.settings.give_up_s) as outbox:
            while not self._context.stop.is_set():
                self._turn(outbox)
                self._look_for_a_newer(publisher, election)
            self._hand_over_rest(outbox)
            outbox.finish()
        return self._published

    def _turn(self, outbox: VerdictOutbox) -> None:
        """Judge the frames of one poll, batch by batch, and hand them to the outbox, which may wait."""
        records = self._reader.poll(FRAMES_A_POLL, 0.1)
        self._last_ms = records[-1].timestamp if records else None
        for batch in in_batches(records):
            self._snapshots.note_frame(batch[0].offset, batch[0].timestamp)
            self._judge(outbox, batch)
            self._after(outbox)
        if not records:
            self._hand_over_rest(outbox)
            self._after(outbox)
        self._context.health.turn(NAME, *self._state(outbox, self._reader.answers()))

    def _judge(self, outbox: VerdictOutbox, records: Sequence[Record]) -> None:
        began = time.perf_counter()
        judged = self._log_judge.take(records)
        self._log_judge.name_outgrown()
        self._log_judge.ask_about_times()
        if any(frame.verdicts for frame in judged):
            seconds, verdicts = time.perf_counter() - began, [one for frame in judged for one in frame.verdicts]
            self._context.metrics.batch.labels("judge").observe(seconds)
            _logger.debug("judged %d pages of %d frames in %.1f ms", len(verdicts), len(records), 1e3 * seconds)
            self._log_judge.metrics.count_judged(verdicts)
            self._hand_over(outbox, judged)
        elif self._log_judge.next_frame - self._handed_over >= MAX_UNPUBLISHED_FRAMES:
            self._hand_over(outbox)

    def _after(self, outbox: VerdictOutbox) -> None:
        """Check everything that is due between two batches."""
        outbox.check()
        self._measure()
        self._snapshots.turn(self._log_judge.next_frame, self._log_judge.ordinal, self._published)
        if self._snapshots.wanted > self._handed_over:
            self._hand_over(outbox)
        self._log_judge.metrics.set_state()
        self._context.health.beat(NAME)

    def _measure(self) -> None:
        """Set the metrics, between two batches or while the outbox is full."""
        metrics = self._context.metrics
        metrics.log_lag_seconds.set(0 if self._last_ms is None else max(0.0, time.time() - self._last_ms / 1000))
        metrics.published.set(self._published)
        self._transactions.follow(self._publisher.results)

    def _hand_over(self, outbox: VerdictOutbox, judged: Sequence[JudgedFrame] = ()) -> None:
        """Give the outbox the judged frames, or the position alone."""
        self._handed_over = self._log_judge.next_frame
        outbox.put([self._pending(frame) for frame in judged] or [self._bare(self._log_judge.place)])

    def _hand_over_rest(self, outbox: VerdictOutbox) -> None:
        """Hand over the position behind the last frames, which had no verdicts: nobody need wait for them."""
        if self._log_judge.next_frame > self._handed_over:
            self._hand_over(outbox)

    def _pending(self, frame: JudgedFrame) -> PendingFrame:
        if not frame.verdicts:
            return self._bare(frame.place)
        header = frame.header
        headers = page_headers.unpack(header.headers, header.start) if header else {}
        return PendingFrame(
            [self._outgoing(verdict, headers.get(verdict.source.offset, ())) for verdict in frame.verdicts],
            self._position(frame.place),
            Counter(verdict.verdict for verdict in frame.verdicts),
            frame.record.timestamp,
            frame.arrival_counts,
            frame.place.frame,
            sum(len(name) + len(value) for one in headers.values() for name, value in one),
            traced_pages(frame, headers) if headers and self._context.spans else (),
        )

    def _bare(self, place: LogPlace) -> PendingFrame:
        """Return a position without verdicts."""
        return PendingFrame((), self._position(place), {}, 0, {}, place.frame)

    def _position(self, place: LogPlace) -> bytes:
        position = self._log_judge.position(self._log_id, place)
        return positions.encode(positions.with_schema(position, self._format.schema_id))

    def _outgoing(self, verdict: Verdict, headers: Headers) -> OutgoingVerdict:
        own = (VERDICT, verdict.verdict.encode()), (FORMAT, FORMAT_NUMBER)
        return OutgoingVerdict(verdict.id.encode(), self._format.encode(verdict), (*own, *headers))

    def _look_for_a_newer(self, publisher: Publisher, election: Election) -> None:
        """Raise TakenOver if the election is lost and another judge has begun to publish.

        A lost election alone is no reason to stop. The group may have missed this judge for a moment. The next
        elected judge may never begin. Publishing goes on until the newer judge fences this one. Without verdicts to
        publish, only this look can tell.
        """
        lost = election.lost
        self._elected.set(not lost)
        if lost and not self._lost:
            self._context.metrics.elections_lost.inc()
        self._lost = lost
        now = time.monotonic()
        if lost and self._reader.answers() and now >= self._next_look:
            self._next_look = now + LOOK_EVERY_S
            publisher.check()

    def _committed(self, batch: CommittedBatch) -> None:
        """Count a committed transaction. The outbox calls it."""
        self._context.metrics.batch.labels("publish").observe(batch.seconds)
        self._context.publish_pace.note(batch.seconds)
        self._log_judge.metrics.count_committed(batch.kinds, batch.appended, batch.arrival_counts)
        self._published = batch.frame
        if batch.traced and self._context.spans:
            self._context.spans.send(batch.traced, time.time_ns())

    def _waiting(self, outbox: VerdictOutbox) -> None:
        """Tell health and metrics while the outbox is full. The outbox calls it."""
        self._measure()
        self._context.health.turn(NAME, *self._state(outbox))

    def _state(self, outbox: VerdictOutbox, answers: bool = True) -> tuple[bool, str]:
        """Return whether the judge is ready, and why not."""
        why = self._log_judge.open_gap() or self._snapshots.why or self._reader.held_back()
        if outbox.obstacle:
            why = outbox.obstacle
        elif outbox.busy_s > SLOW_S:
            why = "verdicts wait to be published"
        elif not why and not answers:
            why = "the log does not answer"
        return not why, why


def traced_pages(frame: JudgedFrame, headers: Mapping[int, Headers]) -> list[TracedPage]:
    """Return the pages with a sampled `traceparent`; `headers` are those of the frame's pages, by their offset.

    A frame of an earlier version does not say when its pages came.
    """
    sampled = {offset: own for offset, own in headers.items() if is_sampled(own)}
    if not sampled:
        return []
    appended = frame.record.timestamp
    came = frame.header.came if frame.header else ()
    arrivals = list(chain.from_iterable(repeat(ms, pages) for ms, pages in came))
    skipped = len(arrivals) - len(frame.verdicts)  # pages below the position have no verdict
    return [
        TracedPage(
            sampled[one.source.offset],
            one.verdict,
            one.ordinal,
            one.source,
            arrivals[skipped + number] if arrivals else appended,
            appended,
        )
        for number, one in enumerate(frame.verdicts)
        if one.source.offset in sampled
    ]
