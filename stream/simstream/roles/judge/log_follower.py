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

import msgspec

from simstream.amounts import say_count
from simstream.errors import WrongLog, WrongPolicy, WrongSchema
from simstream.judge.policy import Policy
from simstream.log.base import Log, Reader
from simstream.log.options import FINGERPRINTS, POSITIONS
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
"""A standby at most this many frames behind is ready: it takes over within a moment."""
SETTLED_S = 10.0
"""Seconds on standby until another judge is surely elected.

Before, this judge may be elected next, and no judge publishes.
"""
IDLE_S = 0.1
_logger = logging.getLogger("simstream.judge")


class PublishedPositionCheck:
    """Checks that a published position belongs to this log, this policy and, after `expect`, this schema."""

    def __init__(self, log: Log, policy: Policy) -> None:
        self.log_id = log.topic(FINGERPRINTS).id
        self._policy_id = policy.id
        self._schema_id: int | msgspec.UnsetType | None = msgspec.UNSET
        """The schema of this judge's verdicts, None for plain JSON; UNSET: not known yet, and not checked."""

    def expect(self, schema_id: int | None, published: Position | None) -> None:
        """Check the schema's id from now on, too; None for plain JSON. Raises WrongSchema for this position."""
        self._schema_id = schema_id
        self._check_schema(published)

    def decode(self, data: bytes | None) -> Position | None:
        """Return the decoded position, None for None. Raises WrongLog, WrongPolicy, WrongSchema."""
        if data is None:
            return None
        position = positions.decode(data)
        if position.log_id != self.log_id:
            raise WrongLog(
                f"verdicts were published for the log {position.log_id}, this one is {self.log_id}",
                "choose another --prefix if the topic fingerprints was created again; if it is a copy in another "
                "cluster, publish under another prefix with `simstream replay --to`",
            )
        if position.policy != self._policy_id:
            raise WrongPolicy(
                f"verdicts were published under policy {position.policy}, this judge has policy {self._policy_id}",
                "use the same distance, similarity, window, link and sketch_lookups (a setting of the recipe), or "
                "publish under another prefix with `simstream replay --to`",
            )
        self._check_schema(position)
        return position

    def _check_schema(self, position: Position | None) -> None:
        if self._schema_id is msgspec.UNSET or position is None or not position.ordinal:
            return
        if self._schema_id != position.published_schema:
            those = "are plain JSON" if self._schema_id is None else f"have schema {self._schema_id}"
            raise wrong_schema(position.published_schema, f"those of this judge {those}")


def wrong_schema(published: int | None, but: str) -> WrongSchema:
    """Return the error of a judge that could only go on with another schema than that of the published verdicts."""
    have = "are plain JSON" if published is None else f"have schema {published} of the registry"
    return WrongSchema(
        f"the published verdicts {have}, but {but}",
        "use the same verdicts_format and registry, or publish under another prefix with `simstream replay --to`",
    )


def log_ends_early(frame: int, published: Position) -> WrongLog:
    """Return the error for a log that ends at `frame`, before the published position."""
    return WrongLog(
        f"the log ends at frame {frame}, but verdicts were published up to frame {published.frame}",
        "restore the topic fingerprints, or choose another --prefix",
    )


@dataclass(frozen=True, slots=True)
class FollowerRole:
    """What a LogFollower must know of the role that it serves."""

    name: str
    """The role's name in health and metrics."""
    settled_s: float
    """Seconds from the start of following until the role may be ready."""
    word: str
    """The word for its work in health."""
    turn: Callable[[], AbstractContextManager[None]] = nullcontext
    """The context around each read or change of the state, for at most one batch of frames."""
    hear: Callable[[Sequence[Verdict]], None] = lambda verdicts: None
    """Called with the verdicts of each judged frame, within a turn."""


JUDGE = FollowerRole(NAME, SETTLED_S, "standby")


class LogFollower:
    """Brings a `LogJudge` to the committed position, and keeps it there while another judge publishes."""

    def __init__(
        self,
        log: Log,
        reader: Reader,
        log_judge: LogJudge,
        position_check: PublishedPositionCheck,
        snapshots: NoSnapshots,
        context: RoleContext,
        role: FollowerRole = JUDGE,
    ) -> None:
        """`reader` reads the log's frames from the place of `log_judge` on."""
        self._role = role
        self._log = log
        self._snapshots = snapshots
        self._reader = reader
        self._log_judge = log_judge
        self._position_check = position_check
        self._context = context
        self._said = False

    def follow(self, elected: Callable[[int], bool]) -> Position | None:
        """Stand by until elected or stopped, and return the position that is published then.

        Calls `elected` again and again with the number of frames that are not yet judged. Read-only: fences no
        other judge. Raises WrongLog, WrongPolicy, LogError, StateUnwritable.
        """
        with self._log.open_reader(POSITIONS, "end") as committed, self._log.open_publisher() as publisher:
            published = self._position_check.decode(publisher.committed())  # `committed` brings the later positions
            began = time.monotonic()
            while not self._context.stop.is_set() and not elected(self._behind(published)):
                settled = time.monotonic() - began > self._role.settled_s
                if settled and not self._said and self._role is JUDGE:
                    self._said = True
                    _logger.info("stands by: another judge is elected, and this one follows its verdicts")
                behind = self._step(published)
                records = committed.poll(10_000, 0.0 if behind else IDLE_S)
                if records:
                    published = self._later(published, self._position_check.decode(records[-1].value))
                self._say_standby(published, settled, self._reader.answers() and committed.answers())
        return published

    def replay(self, published: Position) -> None:
        """Judge all remaining frames below the published position. Raises WrongLog, LogError, StateUnwritable."""
        remaining = published.frame - self._log_judge.next_frame
        if remaining > 0:
            _logger.info("replaying %s of the log", say_count(remaining, "frame"))
        self._say_replay(remaining)
        while remaining > 0 and not self._context.stop.is_set():
            self._step(published)
            remaining = self._behind(published)
            self._say_replay(remaining)
        if self._context.stop.is_set():
            return
        self._snapshots.check(self._log_judge.place, published)
        where = {"frame": published.frame, "ordinal": published.ordinal}
        _logger.info(
            "has replayed the log: publishing goes on at frame %d, ordinal %d", *where.values(), extra=where
        )
        self._log_judge.name_outgrown()

    def _step(self, published: Position | None) -> int:
        """Judge the next few frames below the published position, and return how many remain."""
        if published is None:
            return 0
        with self._role.turn():
            self._snapshots.turn(self._log_judge.next_frame, self._log_judge.ordinal, published.frame)
        if self._log_judge.next_frame >= published.frame:
            return 0
        at_end = self._reader.caught_up()
        left = published.frame - self._log_judge.next_frame
        records = self._reader.poll(min(FRAMES_A_POLL, left), 0.5)
        if records:
            self._snapshots.note_frame(records[0].offset, records[0].timestamp)
        for batch in in_batches(records):
            with self._role.turn():
                for frame in self._log_judge.take(batch, published=True):
                    self._role.hear(frame.verdicts)
            self._context.health.beat(self._role.name)
        with self._role.turn():
            self._log_judge.metrics.set_state()
        if not records and at_end:
            raise log_ends_early(self._log_judge.next_frame, published)
        if self._log_judge.next_frame == published.frame:
            self._snapshots.check(self._log_judge.place, published)
        return self._behind(published)

    def _behind(self, published: Position | None) -> int:
        """Return how many frames below the published position are not yet judged."""
        behind = max(0, published.frame - self._log_judge.next_frame) if published else 0
        self._context.metrics.replay_remaining.set(behind)
        self._context.metrics.published.set(published.frame if published else 0)
        return behind

    def _say_replay(self, remaining: int) -> None:
        why = f"replaying, {say_count(remaining, 'frame')} to go"
        if held_back := self._reader.held_back():
            why += f"; {held_back}"
        self._context.health.turn(NAME, False, why, REPLAYING)

    def _say_standby(self, published: Position | None, settled: bool, answers: bool) -> None:
        with self._role.turn():
            self._log_judge.metrics.set_state()
        behind = self._behind(published)
        held_back = self._reader.held_back() if behind else ""
        ready = settled and answers and behind <= MAX_READY_FRAMES and not (self._snapshots.why or held_back)
        word = self._role.word
        why = f"follows, {say_count(behind, 'frame')} behind" if answers else "the log does not answer"
        if word != self._role.name:  # health already has this word
            why = f"{word}: {why}"
        for more in (self._snapshots.why, held_back):
            why += f"; {more}" if more else ""
        self._context.health.turn(self._role.name, ready, why, STANDBY)

    @staticmethod
    def _later(one: Position | None, other: Position | None) -> Position | None:
        """Return the later of two positions of one log."""
        if one is None or other is None:
            return other if one is None else one
        return other if other.frame >= one.frame else one
