"""Turns frames of the log into verdicts, in order. Knows nothing of publishing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from simstream.closing import Closing
from simstream.errors import WrongLog
from simstream.judge.acceptor import AcceptedPages, IgnoreReason
from simstream.judge.cluster_sizes import SizeAlert
from simstream.judge.policy import Policy
from simstream.judge.state import JudgeState
from simstream.model import Record, Verdict
from simstream.roles.context import RoleContext
from simstream.roles.fingerprint.first_frame import wrong_recipe
from simstream.roles.judge.judge_metrics import JudgeMetrics
from simstream.wire import frame as frames
from simstream.wire.position import Position

MAX_BATCH_BYTES = 512 << 10
"""Frames that are judged together: some 3,000 pages."""
_log = logging.getLogger("simstream.judge")


class LogPlace(NamedTuple):
    """Between two frames of the log: the next frame, the next ordinal, the digest of what was accepted so far."""

    frame: int
    ordinal: int
    digest: str


class JudgedFrame(NamedTuple):
    """A frame of the log, the verdicts of its pages that count, and the place behind it."""

    record: Record
    verdicts: Sequence[Verdict]
    place: LogPlace


def in_batches(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Successive records, cut so that one batch is judged in about a tenth of a second; one record always fits."""
    begin = size = 0
    for at, record in enumerate(records):
        size += len(record.value or b"")
        if size > MAX_BATCH_BYTES and at > begin:
            yield records[begin:at]
            begin, size = at, len(record.value or b"")
    if begin < len(records):
        yield records[begin:]


class LogJudge(Closing):
    """Acceptor and resolver on their way through one log. Not for several threads."""

    def __init__(self, policy: Policy, context: RoleContext, name: str) -> None:
        """`name`: the role, as health has it: it lives while a long step goes on."""
        self._policy = policy
        self._context = context
        alert = context.settings.cluster_alert
        beat = partial(context.health.beat, name)
        self.state = JudgeState(policy, SizeAlert(alert.pages, alert.share), background=True, beat=beat)
        self._acceptor = self.state.acceptor
        self._resolver = self.state.resolver
        self._begun = False
        self._gap_since: float | None = None
        self.observing = JudgeMetrics(self.state, context.metrics)

    @property
    def next_frame(self) -> int:
        """The frame of the log that comes next."""
        return self._acceptor.next_frame

    @property
    def ordinal(self) -> int:
        """The number of the page that comes next."""
        return self._acceptor.ordinal

    def take(self, records: Sequence[Record]) -> list[JudgedFrame]:
        """Judge successive frames together; one answer for each, also for those that are ignored.

        Raises WrongLog for a frame that is not the next one, WrongRecipe for a first frame of another recipe, and
        FrameFormat for a frame that this version does not understand."""
        taken = [self._accept(record) for record in records]
        accepted = [frame for frame, _ in taken if frame is not None]
        verdicts = self.state.resolve(accepted)
        judged, begin = [], 0
        for record, (frame, place) in zip(records, taken, strict=True):
            end = begin + (len(frame.columns) if frame is not None else 0)
            judged.append(JudgedFrame(record, verdicts[begin:end], place))
            begin = end
        self._context.metrics.frames.inc(len(accepted))
        return judged

    def _accept(self, record: Record) -> tuple[AcceptedPages | None, LogPlace]:
        """What counts of one frame, and the place behind it."""
        if record.offset != self._acceptor.next_frame:
            raise WrongLog(
                f"the log continues at frame {record.offset}, frame {self._acceptor.next_frame} is missing",
                "restore the topic fingerprints, or choose another --prefix",
            )
        accepted = self.state.accept(record)
        if isinstance(accepted, IgnoreReason):
            self._ignored(record, accepted)
            return None, self.place
        self._begun = True
        return accepted, self.place

    def close(self) -> None:
        """End what the state does beside."""
        self.state.close()

    @property
    def place(self) -> LogPlace:
        """Where judging stands."""
        acceptor = self._acceptor
        return LogPlace(acceptor.next_frame, acceptor.ordinal, acceptor.digest_hex)

    def position(self, log_id: str, place: LogPlace) -> Position:
        """A place of this log as it is published."""
        return Position(log_id, *place, self._policy.id)

    def check(self, published: Position) -> None:
        """Raise WrongLog unless this log leads to what was published, whose frame is the next one here."""
        mine = self.place
        if mine != (published.frame, published.ordinal, published.digest):
            raise WrongLog(
                f"at frame {mine[0]} the log has ordinal {mine[1]} and digest {mine[2]}, the published position "
                f"says frame {published.frame}, {published.ordinal} and {published.digest}",
                "this is not the log that the verdicts were made from: choose another --prefix",
            )

    def open_gap(self) -> str | None:
        """A gap that a fingerprinter should have closed by now."""
        if not self._acceptor.gaps:
            self._gap_since = None
            return None
        now = time.monotonic()
        self._gap_since = now if self._gap_since is None else self._gap_since
        if now - self._gap_since < self._context.settings.gap_patience_s:
            return None
        (_, partition), start = next(iter(self._acceptor.gaps.items()))
        return f"partition {partition} has a gap before offset {start}: see `simstream source rewind`"

    def name_outgrown(self) -> None:
        """One line for a cluster that has become too large, and for each doubling; most are no articles at all."""
        live = self._resolver.live_pages
        for cluster_id, pages, canonical in self._resolver.outgrown():
            _log.warning(
                "cluster %d has grown to %d pages, %.1f %% of all live ones; its oldest is %r: look whether these "
                "are error pages, login walls or one template",
                cluster_id,
                pages,
                100 * pages / live,
                canonical,
                extra={"cluster": cluster_id, "pages": pages, "ordinal": self._acceptor.ordinal},
            )

    def observe(self) -> None:
        """Set the metrics of what is held, where it is time to."""
        self.observing.held()

    def _ignored(self, record: Record, reason: IgnoreReason) -> None:
        if reason is IgnoreReason.RECIPE and not self._begun and self._acceptor.ordinal == 0:
            raise wrong_recipe(frames.decode(record.value or b"").header.recipe, self._policy.recipe_id)
        self._begun = self._begun or reason is not IgnoreReason.DAMAGED
        self._context.metrics.frames_ignored.labels(reason.value).inc()
        level = logging.INFO if reason is IgnoreReason.REPEATED else logging.WARNING
        where: dict[str, object] = {"frame": record.offset, "reason": reason.value}
        if reason is not IgnoreReason.DAMAGED:
            header = frames.decode(record.value or b"").header
            where |= {"partition": header.partition, "offset": header.start}
        _log.log(level, "frame %d of the log was ignored: %s", record.offset, reason.value, extra=where)
