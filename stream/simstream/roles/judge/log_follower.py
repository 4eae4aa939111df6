"""Judges the log silently up to the committed position, on standby and at a start.

A standby follows until it is elected. An elected judge follows for the rest of the way. Neither publishes again
what is already published.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from simstream.errors import WrongLog, WrongPolicy
from simstream.judge.policy import Policy
from simstream.log.base import FINGERPRINTS, POSITIONS, Log, Reader
from simstream.model import Verdict
from simstream.roles.context import RoleContext
from simstream.roles.judge.log_judge import LogJudge, in_batches
from simstream.roles.judge.snapshots import NoSnapshots
from simstream.telemetry.health import REPLAYING, STANDBY
from simstream.wire import position as positions
from simstream.wire.position import Position

NAME = "judge"
FRAMES_A_POLL = 256
MAX_READY_FRAMES = 64
"""Frames. A standby that is no further behind is ready: it takes over within a moment."""
SETTLED_S = 10.0
"""Seconds on standby until another judge is surely elected. Before, this one may be elected next, and no judge
publishes."""
IDLE_S = 0.1
_log = logging.getLogger("simstream.judge")


class PublishedPositionCheck:
    """Checks that a published position belongs to this log and this policy."""

    def __init__(self, log: Log, policy: Policy) -> None:
        self.log_id = log.topic(FINGERPRINTS).id
        self._policy_id = policy.id

    def __call__(self, data: bytes | None) -> Position | None:
        """Return the decoded position, None for None. Raises WrongLog, WrongPolicy."""
        if data is None:
            return None
        position = positions.decode(data)
        if position.log_id != self.log_id:
            raise WrongLog(
                f"verdicts were published for the log {position.log_id}, this one is {self.log_id}",
                "choose another --prefix: the topic fingerprints was created again",
            )
        if position.policy != self._policy_id:
            raise WrongPolicy(
                f"verdicts were published under policy {position.policy}, this judge has policy {self._policy_id}",
                "use the same recipe, distance, similarity, window and link, or publish under another prefix with "
                "`simstream replay --to`",
            )
        return position


@dataclass(frozen=True, slots=True)
class FollowerRole:
    """The role that follows, and what other threads need of it meanwhile."""

    name: str
    """The role's name in health and metrics."""
    settled_s: float
    """Called once; the role is not ready before."""
    word: str
    """The word for its work in health."""
    turn: Callable[[], AbstractContextManager[None]] = nullcontext
    """The context around each read or change of the state, for at most one batch of frames."""
    heard: Callable[[Sequence[Verdict]], None] = lambda verdicts: None
    """Called with the judged frames, within a turn."""


JUDGE = FollowerRole(NAME, SETTLED_S, "standby")


class LogFollower:
    """Brings a `LogJudge` to the committed position, and keeps it there while another one publishes."""

    def __init__(
        self,
        log: Log,
        reader: Reader,
        judging: LogJudge,
        fitting: PublishedPositionCheck,
        keeper: NoSnapshots,
        context: RoleContext,
        standing: FollowerRole = JUDGE,
    ) -> None:
        """`reader` reads the log's frames from the place of `judging` on."""
        self._standing = standing
        self._log = log
        self._keeper = keeper
        self._reader = reader
        self._judging = judging
        self._fitting = fitting
        self._context = context
        self._said = False

    def follow(self, elected: Callable[[int], bool]) -> Position | None:
        """Stand by until elected or stopped, and return the position that is published then.

        Calls `elected` again and again with the number of frames that are not yet judged. Read-only: fences no
        other judge. Raises WrongLog, WrongPolicy, LogError, StateUnwritable.
        """
        with self._log.reader(POSITIONS, "end") as committed, self._log.publisher() as publisher:
            published = self._fitting(publisher.committed())  # `committed` brings the later positions
            began = time.monotonic()
            while not self._context.stop.is_set() and not elected(self._behind(published)):
                settled = time.monotonic() - began > self._standing.settled_s
                if settled and not self._said and self._standing is JUDGE:
                    self._said = True
                    _log.info("stands by: another judge is elected, and this one follows its verdicts")
                behind = self._step(published)
                records = committed.poll(10_000, 0.0 if behind else IDLE_S)
                if records:
                    published = self._later(published, self._fitting(records[-1].value))
                self._say_standby(published, settled, self._reader.answers() and committed.answers())
        return published

    def replay(self, published: Position) -> None:
        """Judge all remaining frames below the published position. Raises WrongLog, LogError, StateUnwritable."""
        remaining = published.frame - self._judging.next_frame
        _log.info("replaying %d frames of the log", remaining)
        while remaining > 0 and not self._context.stop.is_set():
            self._step(published)
            remaining = self._behind(published)
            self._context.health.turn(NAME, False, f"replaying, {remaining} frames to go", REPLAYING)
        if self._context.stop.is_set():
            return
        self._judging.check(published)
        where = {"frame": published.frame, "ordinal": published.ordinal}
        _log.info("has replayed the log: publishing goes on at frame %d, ordinal %d", *where.values(), extra=where)
        self._judging.name_outgrown()

    def _step(self, published: Position | None) -> int:
        """Judge the next few frames below the published position, and return how many remain."""
        if published is None:
            return 0
        with self._standing.turn():
            self._keeper.turn(self._judging.next_frame, self._judging.ordinal, published.frame)
        if self._judging.next_frame >= published.frame:
            return 0
        at_end = self._reader.caught_up()
        left = published.frame - self._judging.next_frame
        records = self._reader.poll(min(FRAMES_A_POLL, left), 0.5)
        if records:
            self._keeper.saw(records[0].offset, records[0].timestamp)
        for batch in in_batches(records):
            with self._standing.turn():
                for frame in self._judging.take(batch):
                    self._standing.heard(frame.verdicts)
            self._context.health.beat(self._standing.name)
        with self._standing.turn():
            self._judging.observe()
        if not records and at_end:
            raise WrongLog(
                f"the log ends at frame {self._judging.next_frame}, but verdicts were published up to frame "
                f"{published.frame}",
                "restore the topic fingerprints, or choose another --prefix",
            )
        if self._judging.next_frame == published.frame:
            self._judging.check(published)
        return self._behind(published)

    def _behind(self, published: Position | None) -> int:
        """Return how many frames below the published position are not yet judged."""
        behind = max(0, published.frame - self._judging.next_frame) if published else 0
        self._context.metrics.replay_remaining.set(behind)
        self._context.metrics.published.set(published.frame if published else 0)
        self._context.metrics.last_poll.labels(self._standing.name).set(time.time())
        return behind

    def _say_standby(self, published: Position | None, settled: bool, answers: bool) -> None:
        with self._standing.turn():
            self._judging.observe()
        behind = self._behind(published)
        ready = settled and answers and behind <= MAX_READY_FRAMES and not self._keeper.why
        word = self._standing.word
        why = f"follows, {behind} frames behind" if answers else "the log does not answer"
        if word != self._standing.name:  # health already has this word
            why = f"{word}: {why}"
        if self._keeper.why:
            why += f"; {self._keeper.why}"
        self._context.health.turn(self._standing.name, ready, why, STANDBY)

    @staticmethod
    def _later(one: Position | None, other: Position | None) -> Position | None:
        """Return the later of two positions of one log."""
        if one is None or other is None:
            return other if one is None else one
        return other if other.frame >= one.frame else one
