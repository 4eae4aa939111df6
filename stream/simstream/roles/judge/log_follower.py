"""Judges the log silently up to the committed position, on standby and at a start.

A standby does it until it is elected, whoever is elected for the rest of the way; what is published there already
is not published again.
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
"""A standby no further behind is ready: it takes over within a moment of its election."""
SETTLED_S = 10.0
"""After so long on standby somebody is elected; before, it may well be this one, and nobody publishes meanwhile."""
IDLE_S = 0.1
_log = logging.getLogger("simstream.judge")


class PublishedPositionCheck:
    """What a published position must be of: this log, this policy."""

    def __init__(self, log: Log, policy: Policy) -> None:
        self.log_id = log.topic(FINGERPRINTS).id
        self._policy_id = policy.id

    def __call__(self, data: bytes | None) -> Position | None:
        """The published position, None for none. Raises WrongLog, WrongPolicy."""
        if data is None:
            return None
        position = positions.decode(data)
        if position.log_id != self.log_id:
            raise WrongLog(
                f"verdicts were published for the log {position.log_id}, this one is {self.log_id}",
                "the topic fingerprints was made anew: choose another --prefix",
            )
        if position.policy != self._policy_id:
            raise WrongPolicy(
                f"verdicts were published under policy {position.policy}, this is {self._policy_id}",
                "use the same recipe, distance, similarity, window and link, or see `simstream replay --to`",
            )
        return position


@dataclass(frozen=True, slots=True)
class FollowerRole:
    """Who follows, and what others want of it meanwhile."""

    name: str
    """As health and metrics have it."""
    settled_s: float
    """Not ready before."""
    word: str
    """What health says that it does."""
    turn: Callable[[], AbstractContextManager[None]] = nullcontext
    """Around whatever reads or changes the state, a batch of frames at most."""
    heard: Callable[[Sequence[Verdict]], None] = lambda verdicts: None
    """What it judged; within such a turn."""


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
        """`reader` reads the log's frames from where `judging` stands."""
        self._standing = standing
        self._log = log
        self._keeper = keeper
        self._reader = reader
        self._judging = judging
        self._fitting = fitting
        self._context = context
        self._said = False

    def follow(self, elected: Callable[[int], bool]) -> Position | None:
        """Stand by until elected, or until the service is to stop; return the position that is published then.

        `elected` is called again and again with the number of frames that are still to be judged. Only reads, and
        fences no other judge. Raises WrongLog, WrongPolicy, LogError, StateUnwritable.
        """
        with self._log.reader(POSITIONS, "end") as committed, self._log.publisher() as publisher:
            published = self._fitting(publisher.committed())  # what comes after it, `committed` brings
            began = time.monotonic()
            while not self._context.stop.is_set() and not elected(self._behind(published)):
                settled = time.monotonic() - began > self._standing.settled_s
                if settled and not self._said and self._standing is JUDGE:
                    self._said = True
                    _log.info("standing by: another judge is elected, this one follows what it publishes")
                behind = self._step(published)
                records = committed.poll(10_000, 0.0 if behind else IDLE_S)
                if records:
                    published = self._later(published, self._fitting(records[-1].value))
                self._say_standby(published, settled, self._reader.answers() and committed.answers())
        return published

    def replay(self, published: Position) -> None:
        """Judge all that is left below the published position. Raises WrongLog, LogError, StateUnwritable."""
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
        _log.info("replayed: publishing goes on at frame %d, ordinal %d", *where.values(), extra=where)
        self._judging.name_outgrown()

    def _step(self, published: Position | None) -> int:
        """Judge the next few frames below the published position; how many are left to be judged."""
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
                f"the log ends at frame {self._judging.next_frame}, verdicts were published up to frame "
                f"{published.frame}",
                "restore the topic fingerprints, or choose another --prefix",
            )
        if self._judging.next_frame == published.frame:
            self._judging.check(published)
        return self._behind(published)

    def _behind(self, published: Position | None) -> int:
        """Frames below the published position that are not yet judged."""
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
        if word != self._standing.name:  # which health says before it
            why = f"{word}: {why}"
        if self._keeper.why:
            why += f"; {self._keeper.why}"
        self._context.health.turn(self._standing.name, ready, why, STANDBY)

    @staticmethod
    def _later(one: Position | None, other: Position | None) -> Position | None:
        """The further of two positions of one log."""
        if one is None or other is None:
            return other if one is None else one
        return other if other.frame >= one.frame else one
