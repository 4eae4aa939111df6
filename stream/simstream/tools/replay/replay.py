"""Judges a log again under another policy: the judge's role, with another prefix.

Nothing is copied: two judges read one log, each with verdicts, position, election and fencing under its own prefix.
So ordinals and the ids of clusters mean the same under both, and the second may go on live beside the first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from simstream.judge.policy import Policy
from simstream.log.base import Log, TopicReport
from simstream.log.options import FINGERPRINTS, VERDICTS
from simstream.roles.context import RoleContext
from simstream.roles.fingerprint.first_frame import check_recipe
from simstream.roles.judge.role import JudgeRole
from simstream.roles.supervisor import RoleSupervisor
from simstream.wire import position as positions

LOOK_EVERY_S = 0.1


class ReplayResult(NamedTuple):
    """The progress of a replay: the frame and the ordinal up to which verdicts are published, and the number of
    frames of the log."""

    topic: str
    frame: int
    ordinal: int
    frames: int


def missing_topics(log: Log, old_log: Log, recipe_id: str) -> list[TopicReport]:
    """Create `verdicts` and `positions` of the new prefix, which `log` publishes to, if they are missing.

    `verdicts` gets as many partitions as the one that `old_log` publishes to, or as `pages` if that is missing.
    Raises WrongRecipe, before it creates anything, if the log has another recipe, and NotPermitted.
    """
    log.topic(FINGERPRINTS)  # never create a missing log
    check_recipe(log, recipe_id)
    partitions = log.partitions_of(VERDICTS) or old_log.partitions_of(VERDICTS)
    return [report for report in log.create_topics(verdict_partitions=partitions) if report.created]


def replay(
    log: Log, policy: Policy, context: RoleContext, frames: int, tick: Callable[[int], None]
) -> ReplayResult:
    """Judge the first `frames` frames of the log, and publish. `tick` hears the next frame.

    `log` publishes under the new prefix. Goes on after an earlier run, also after a kill: published frames are
    judged without publishing, or taken from the state. If `context.stop` is set, commits all that was judged, and
    ends. Raises what `JudgeRole.run` raises.
    """
    judge = JudgeRole(log, policy, context)
    watch = partial(_until, frames, judge, context, tick)
    supervisor = RoleSupervisor(context, {"judge": judge.run, "replay": watch})
    supervisor.start()
    supervisor.wait()
    with log.open_publisher() as publisher:
        data = publisher.committed()
    published = positions.decode(data) if data is not None else None
    frame, ordinal = (published.frame, published.ordinal) if published else (0, 0)
    return ReplayResult(log.topic(VERDICTS).name, frame, ordinal, frames)


def _until(frames: int, judge: JudgeRole, context: RoleContext, tick: Callable[[int], None]) -> None:
    """Stop the judge once it has judged so many frames of the log; it commits all of them at its end."""
    while not context.stop.is_set() and judge.next_frame < frames:
        tick(judge.next_frame)
        context.stop.wait(LOOK_EVERY_S)
    tick(min(judge.next_frame, frames))
    context.stop.set()
