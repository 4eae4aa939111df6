"""The judge: reads the log, judges its pages, and publishes verdicts together with its position."""

from __future__ import annotations

import gc
import logging
import time
from collections import Counter
from collections.abc import Sequence

from stream.errors import WrongLog, WrongPolicy
from stream.index import Index
from stream.judge.acceptor import Accepted, Acceptor, Ignored
from stream.judge.resolver import Resolver
from stream.judge.sizes import Alert
from stream.log.base import FINGERPRINTS, Log, Outgoing, Reader
from stream.model import Record, Source, Verdict
from stream.roles.context import Context
from stream.roles.first_frame import check_recipe, wrong_recipe
from stream.roles.outbox import Batch, Outbox
from stream.text.policy import Policy
from stream.wire import frame as frames
from stream.wire import position as positions
from stream.wire import verdict as wire
from stream.wire.position import Position

NAME = "judge"
FRAMES_A_POLL = 16
SLOW_S = 3.0
"""A commit that takes longer makes the judge unready."""
REST_EVERY = 2_000
_log = logging.getLogger("simstream.judge")


class JudgeRole:
    """The one judge of a log. `run` works until `context.stop` is set, or raises.

    State is rebuilt from the log at start: frames below the published position are judged again silently.
    """

    def __init__(self, log: Log, policy: Policy, index: Index, context: Context) -> None:
        self._log = log
        self._policy = policy
        self._index = index
        self._context = context
        alert = context.settings.cluster_alert
        self._resolver = Resolver(policy, index, Alert(alert.pages, alert.share))
        self._acceptor = Acceptor(policy.recipe_id, policy.sketch_bits // 64)
        self._begun = False
        self._gap_since: float | None = None
        self._candidates = 0
        self._resting = 0

    def run(self) -> None:
        """Raises WrongRecipe, WrongPolicy, WrongLog, PositionMissing, TakenOver, LogError."""
        self._context.health.starting(NAME, self._context.settings.give_up_s)
        self._log_id = self._log.topic(FINGERPRINTS).id
        check_recipe(self._log, self._policy.recipe_id)
        with self._log.publisher() as publisher:
            self._fitting(publisher.committed())  # one that does not fit must not fence one that does
            published = self._fitting(publisher.start())
            with (
                self._log.reader(FINGERPRINTS, 0) as reader,
                Outbox(publisher, self._committed, self._waiting, self._context.settings.give_up_s) as outbox,
            ):
                if published is not None:
                    self._replay(reader, published)
                while not self._context.stop.is_set():
                    self._turn(reader, outbox)
                outbox.finish()

    def _fitting(self, data: bytes | None) -> Position | None:
        """The published position; refuses one that belongs to another log or policy."""
        if data is None:
            return None
        position = positions.decode(data)
        if position.log_id != self._log_id:
            raise WrongLog(
                f"verdicts were published for the log {position.log_id}, this one is {self._log_id}",
                "the topic fingerprints was made anew: choose another --prefix",
            )
        if position.policy != self._policy.id:
            raise WrongPolicy(
                f"verdicts were published under policy {position.policy}, this is {self._policy.id}",
                "use the same recipe, distance, similarity, window and link, or another --prefix",
            )
        return position

    def _replay(self, reader: Reader, published: Position) -> None:
        """Judge everything below the published position again, without publishing it."""
        _log.info("replaying %d frames of the log", published.frame)
        while self._acceptor.next_frame < published.frame and not self._context.stop.is_set():
            at_end = reader.caught_up()
            records = reader.poll(min(FRAMES_A_POLL, published.frame - self._acceptor.next_frame), 0.5)
            for record in records:
                self._judge(record)
            self._rest()
            remaining = published.frame - self._acceptor.next_frame
            self._context.metrics.replay_remaining.set(remaining)
            self._context.health.turn(NAME, False, f"replaying, {remaining} frames to go")
            if not records and at_end:
                raise WrongLog(
                    f"the log ends at frame {self._acceptor.next_frame}, verdicts were published up to frame "
                    f"{published.frame}",
                    "restore the topic fingerprints, or choose another --prefix",
                )
        if self._context.stop.is_set():
            return
        mine = (self._acceptor.next_frame, self._acceptor.ordinal, self._acceptor.digest_hex)
        if mine != (published.frame, published.ordinal, published.digest):
            raise WrongLog(
                f"at frame {mine[0]} the log has ordinal {mine[1]} and digest {mine[2]}, the published position "
                f"says frame {published.frame}, {published.ordinal} and {published.digest}",
                "this is not the log that the verdicts were made from: choose another --prefix",
            )
        _log.info("replayed: publishing goes on at frame %d, ordinal %d", mine[0], mine[1])
        self._name_outgrown()

    def _turn(self, reader: Reader, outbox: Outbox) -> None:
        """Judge what one poll brings and hand it to the outbox, which may make us wait."""
        records = reader.poll(FRAMES_A_POLL, 0.1)
        began = time.perf_counter()
        verdicts: list[Verdict] = []
        for record in records:
            verdicts += self._judge(record)
        self._name_outgrown()
        if verdicts:
            self._context.metrics.batch.labels("judge").observe(time.perf_counter() - began)
            outbox.put(Batch(_outgoing(verdicts), self._position(), _kinds(verdicts), records[0].timestamp))
        outbox.check()
        self._rest()
        self._observe()
        self._context.health.turn(NAME, *self._state(outbox, reader.answers()))

    def _judge(self, record: Record) -> list[Verdict]:
        if record.offset != self._acceptor.next_frame:
            raise WrongLog(
                f"the log continues at frame {record.offset}, frame {self._acceptor.next_frame} is missing",
                "restore the topic fingerprints, or choose another --prefix",
            )
        accepted = self._acceptor.accept(record.offset, record.value or b"", record.timestamp)
        if not isinstance(accepted, Accepted):
            self._ignored(record, accepted)
            return []
        self._begun = True
        self._context.metrics.frames.inc()
        header, columns = accepted.header, accepted.columns
        sources = [Source(header.topic, header.partition, offset) for offset in columns.offset.tolist()]
        return self._resolver.judge(columns, accepted.time, accepted.ordinal, sources)

    def _ignored(self, record: Record, reason: Ignored) -> None:
        if reason is Ignored.RECIPE and not self._begun:
            raise wrong_recipe(frames.decode(record.value or b"").header.recipe, self._policy.recipe_id)
        self._begun = self._begun or reason is not Ignored.DAMAGED
        self._context.metrics.frames_ignored.labels(reason.value).inc()
        level = logging.INFO if reason is Ignored.REPEATED else logging.WARNING
        _log.log(level, "frame %d of the log was ignored: %s", record.offset, reason.value)

    def _name_outgrown(self) -> None:
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
            )

    def _position(self) -> bytes:
        acceptor = self._acceptor
        return positions.encode(
            Position(self._log_id, acceptor.next_frame, acceptor.ordinal, acceptor.digest_hex, self._policy.id)
        )

    def _committed(self, batch: Batch) -> None:
        """Called by the outbox once a batch is committed."""
        metrics = self._context.metrics
        for kind, number in batch.kinds.items():
            metrics.verdicts.labels(kind).inc(number)
        metrics.latency.observe(max(0.0, time.time() - batch.appended_ms / 1000))

    def _rest(self) -> None:
        """Hide what is alive from the collector, which would walk over every live page again and again.

        It took a third of the judge's time at 40,000 pages. Pages that leave go by their reference counts.
        """
        if self._acceptor.ordinal - self._resting >= REST_EVERY:
            self._resting = self._acceptor.ordinal
            gc.freeze()

    def _waiting(self, outbox: Outbox) -> None:
        """Called by the outbox while it is full."""
        self._context.health.turn(NAME, *self._state(outbox))

    def _state(self, outbox: Outbox, answers: bool = True) -> tuple[bool, str]:
        """Whether it is ready, and why not."""
        why = self._open_gap() or ""
        if outbox.busy_s > SLOW_S:
            why = "verdicts wait to be published"
        elif not why and not answers:
            why = "the log does not answer"
        return not why, why

    def _observe(self) -> None:
        metrics = self._context.metrics
        metrics.position.set(self._acceptor.next_frame)
        live, largest = self._resolver.live_pages, self._resolver.largest_cluster
        metrics.live_pages.set(live)
        metrics.largest_cluster.set(largest)
        metrics.largest_share.set(largest / live if live else 0)
        metrics.entries.set(len(self._index))
        metrics.index_bytes.set(self._index.bytes())
        metrics.candidates.inc(self._index.candidates - self._candidates)
        self._candidates = self._index.candidates
        metrics.gaps.set(len(self._acceptor.gaps))
        metrics.last_poll.labels(NAME).set_to_current_time()

    def _open_gap(self) -> str | None:
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


def _outgoing(verdicts: Sequence[Verdict]) -> list[Outgoing]:
    return [
        Outgoing(verdict.id.encode(), wire.encode(verdict), (("verdict", verdict.verdict.encode()),))
        for verdict in verdicts
    ]


def _kinds(verdicts: Sequence[Verdict]) -> Counter[str]:
    return Counter(verdict.verdict for verdict in verdicts)
