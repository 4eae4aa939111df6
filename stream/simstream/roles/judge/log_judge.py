"""Judges the frames of a log in order: frames in, verdicts out, nothing published."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from simstream.closing import Closing
from simstream.errors import WrongLog
from simstream.judge.acceptor import AcceptedPages, IgnoreReason, LogPlace, say_offset
from simstream.judge.answer_book import AnswerBook
from simstream.judge.cluster_sizes import SizeAlert
from simstream.judge.policy import Policy
from simstream.judge.state import JudgeState
from simstream.model import Record, Verdict
from simstream.roles.context import RoleContext
from simstream.roles.fingerprint.first_frame import wrong_recipe
from simstream.roles.judge.judge_metrics import JudgeMetrics
from simstream.roles.judge.late_share import LateShare
from simstream.wire import frame as frames
from simstream.wire.position import Position

MAX_BATCH_BYTES = 512 << 10
"""The bytes of frames that are judged together: some 3,000 pages."""


class JudgedFrame(NamedTuple):
    """A frame of the log, the verdicts of its accepted pages, and the place behind it."""

    record: Record
    verdicts: Sequence[Verdict]
    place: LogPlace
    arrival_counts: Mapping[int, int]
    """The number of these pages by arrival in the source topic, in ms."""
    header: frames.FrameHeader | None = None
    """The header of the frame; None if the frame was ignored."""


def in_batches(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Yield successive records in batches that are judged in about a tenth of a second; one record always fits."""
    begin = size = 0
    for at, record in enumerate(records):
        size += len(record.value or b"")
        if size > MAX_BATCH_BYTES and at > begin:
            yield records[begin:at]
            begin, size = at, len(record.value or b"")
    if begin < len(records):
        yield records[begin:]


def check_next(frame: int, record: Record) -> None:
    """Raise WrongLog unless the record is this frame of the log."""
    if record.offset != frame:
        raise WrongLog(
            f"the log goes on at frame {record.offset}, but frame {frame} is missing",
            "restore the topic fingerprints, or choose another --prefix",
        )


class LogJudge(Closing):
    """The acceptor and the resolver on their way through one log. For one thread."""

    def __init__(self, policy: Policy, context: RoleContext, name: str, book: AnswerBook | None = None) -> None:
        """`name` is the role in health and log: it beats in a long step. With a `book` shards find matches."""
        self.logger = logging.getLogger(f"simstream.{name}")
        self._policy = policy
        self._context = context
        alert, beat = context.settings.cluster_alert, partial(context.health.beat, name)
        limits = SizeAlert(alert.pages, alert.share)
        self.state = JudgeState(policy, limits, background=True, book=book, beat=beat)
        self._book = book
        self._acceptor = self.state.acceptor
        self._resolver = self.state.resolver
        self._begun = False
        self._gap_since: float | None = None
        self._late = LateShare()
        self.metrics = JudgeMetrics(self.state, context.metrics)

    @property
    def next_frame(self) -> int:
        """The next frame of the log."""
        return self._acceptor.next_frame

    @property
    def ordinal(self) -> int:
        """The number of the next page."""
        return self._acceptor.ordinal

    def take(self, records: Sequence[Record], published: bool = False) -> list[JudgedFrame]:
        """Judge successive frames together, and return one answer for each, also for an ignored frame.

        If they are `published`, the judge that published them has counted the ignored ones.
        Raises WrongLog for a frame out of order, WrongRecipe for a first frame of another recipe, and FrameFormat
        for a frame of a newer version.
        """
        taken = [self._accept(record, published) for record in records]
        if self._book is not None:
            self._book.check(self.next_frame, self._acceptor.digest)
        accepted = [frame for frame, _ in taken if frame is not None]
        late = self._resolver.late_pages
        verdicts = self.state.resolve(accepted)
        late = self._resolver.late_pages - late
        self._context.metrics.late_pages.inc(late)
        self._late.count(len(verdicts), late)
        judged, begin = [], 0
        for record, (frame, place) in zip(records, taken, strict=True):
            if frame is None:
                judged.append(JudgedFrame(record, (), place, {}))
                continue
            end = begin + len(frame.columns)
            arrival_counts = frames.count_arrivals(frame.header, len(frame.columns))
            judged.append(JudgedFrame(record, verdicts[begin:end], place, arrival_counts, frame.header))
            begin = end
        self._context.metrics.frames.inc(len(accepted))
        if self._book is not None:
            self._book.used(self.next_frame)
        return judged

    def _accept(self, record: Record, published: bool) -> tuple[AcceptedPages | None, LogPlace]:
        """Return the accepted pages of one frame, and the place behind it."""
        check_next(self._acceptor.next_frame, record)
        accepted = self.state.accept(record)
        if self._book is not None:
            self._book.check_ended(self.next_frame, self._acceptor.digest)
        if isinstance(accepted, IgnoreReason):
            self._ignored(record, accepted, published)
            return None, self.place
        self._begun = True
        return accepted, self.place

    def close(self) -> None:
        """End the state's background work."""
        self.state.close()

    @property
    def place(self) -> LogPlace:
        """The place between two frames up to which the log is judged."""
        return self._acceptor.place

    def position(self, log_id: str, place: LogPlace) -> Position:
        """Return a place of this log as a position to publish."""
        return Position(log_id, *place, self._policy.id, recipe=self._policy.recipe_id)

    def open_gap(self) -> str | None:
        """Return a sentence about a gap that a fingerprinter should have closed by now; empty without one."""
        if not self._acceptor.gaps:
            self._gap_since = None
            return None
        now = time.monotonic()
        self._gap_since = now if self._gap_since is None else self._gap_since
        if now - self._gap_since < self._context.settings.gap_patience_s:
            return None
        _, partition = key = next(iter(self._acceptor.gaps))
        awaited = say_offset(self._acceptor.positions.get(key))
        return (
            f"partition {partition} has a gap: the log waits for pages from {awaited} on; close it with "
            "`simstream source rewind`, or `source skip` if retention removed these pages"
        )

    def name_outgrown(self) -> None:
        """Log one line for a cluster that has become too large, and one for each doubling. Most of them hold no
        articles."""
        live = self._resolver.live_pages
        for cluster_id, pages, canonical in self._resolver.outgrown():
            self.logger.warning(
                "cluster %d has grown to %d pages, %.1f %% of all live pages; its oldest is %r: check whether "
                "these are error pages, login walls or one template",
                cluster_id,
                pages,
                100 * pages / live,
                canonical,
                extra={"cluster": cluster_id, "pages": pages, "ordinal": self._acceptor.ordinal},
            )

    def ask_about_times(self) -> None:
        """Log a line, at most once an hour, if the times of pages look like seconds under a window."""
        if self._policy.window_ms is not None:
            self._late.check(self._resolver.stream_time)

    def _ignored(self, record: Record, reason: IgnoreReason, published: bool) -> None:
        if reason is IgnoreReason.RECIPE and not self._begun and self._acceptor.ordinal == 0:
            raise wrong_recipe(frames.decode(record.value or b"").header.recipe, self._policy.recipe_id)
        self._begun = self._begun or reason is not IgnoreReason.DAMAGED
        if not published:
            self._context.metrics.frames_ignored.labels(reason.value).inc()
        level = logging.INFO if reason is IgnoreReason.REPEATED else logging.WARNING
        where: dict[str, object] = {"frame": record.offset, "reason": reason.value}
        why = reason.value
        if reason is not IgnoreReason.DAMAGED:
            header = frames.decode(record.value or b"").header
            where |= {"partition": header.partition, "offset": header.start}
            if reason in (IgnoreReason.GAP, IgnoreReason.UNBEGUN):
                awaited = say_offset(self._acceptor.positions.get((header.topic_id, header.partition)))
                why += f": pages of partition {header.partition} from {awaited} to {header.start - 1} are missing"
        self.logger.log(level, "frame %d of the log was ignored: %s", record.offset, why, extra=where)
