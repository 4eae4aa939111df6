"""Runs the role `match`: holds the shards that its group gives it, and answers the frames of the log."""

from __future__ import annotations

import logging
import time
from typing import Final

from simstream.amounts import say_count
from simstream.index.shard import Shard
from simstream.judge.policy import Policy
from simstream.judge.shard_matcher import check_link
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS, MATCHES, POSITIONS
from simstream.roles.context import RoleContext
from simstream.roles.fingerprint.first_frame import check_recipe
from simstream.roles.judge.answered_reader import more_shards
from simstream.roles.judge.log_follower import MAX_READY_FRAMES, PublishedPositionCheck
from simstream.roles.match.answer_writer import AnswerWriter
from simstream.roles.match.prepared_types import prepare_types
from simstream.roles.match.shard_worker import MatcherContext, PositionWatch, ShardWorker
from simstream.roles.topics import check_shards, check_topics
from simstream.telemetry.health import REPLAYING, WORKING

NAME: Final = "match"
TURN_S: Final = 0.1
"""Seconds that one turn of the loop waits for a published position."""
MATCHED: Final = (FINGERPRINTS, POSITIONS, MATCHES)
"""The topics that a matcher relies on."""
_logger = logging.getLogger("simstream.match")


class MatchRole:
    """A matcher. `run` works until `context.stop` is set, or raises."""

    def __init__(self, log: Log, policy: Policy, context: RoleContext) -> None:
        """Raises SettingsError for a policy that shards cannot serve."""
        check_link(policy)
        self._log, self._policy, self._context = log, policy, context
        self._workers: dict[int, ShardWorker] = {}

    def run(self) -> None:
        """Hold shards until `context.stop` is set. Raises every StateError and every LogError."""
        prepare_types()
        health, settings = self._context.health, self._context.settings
        health.expect(NAME, settings.give_up_s)
        shards = check_shards(self._log, self._log.topic(MATCHES).partitions, settings.shards or None)
        check_topics(self._log, MATCHED)
        check = PublishedPositionCheck(self._log, self._policy)
        check_recipe(self._log, self._policy.recipe_id)
        with (
            PositionWatch(self._log, check) as position,
            AnswerWriter(self._log, settings.give_up_s) as writer,
            self._log.join_matchers(settings.instance, settings.copy) as membership,
        ):
            matcher = MatcherContext(self._log, check.log_id, self._policy, position, writer, self._context)
            try:
                while not self._context.stop.is_set():
                    position.look(TURN_S)
                    if obstacle := writer.obstacle:
                        health.note_wait(NAME, f"the log takes no answers: {obstacle}", settings.give_up_s)
                    writer.settle()
                    self._update_workers(matcher, membership.owned, shards)
                    self._report_health(shards, writer.obstacle)
                position.look(TURN_S)  # the last snapshots need the latest published position
            finally:
                self._end_workers()

    def _update_workers(self, matcher: MatcherContext, owned: frozenset[int], shards: int) -> None:
        """Start a worker for each new shard, and end the workers of lost shards. Raises the error of a worker."""
        for number, worker in list(self._workers.items()):
            if number not in owned:
                worker.stop()
            if not worker.is_alive():
                if worker.error is not None:
                    raise worker.error
                del self._workers[number]
                kept = f"; its state stays in {worker.folder}" if worker.folder else ""
                _logger.info("gave back shard %d of %d%s", number, shards, kept, extra={"shard": number})
        if owned and max(owned) >= shards:
            raise more_shards(shards)
        for number in sorted(owned - self._workers.keys()):
            worker = ShardWorker(matcher, Shard(number, shards))
            worker.start()
            self._workers[number] = worker
            _logger.info("took shard %d of %d", number, shards, extra={"shard": number})

    def _report_health(self, shards: int, obstacle: str) -> None:
        """Tell health what the shards do; tell it nothing while the loop of any shard stands still, unless it waits
        for the log."""
        workers = list(self._workers.values())
        if obstacle:
            self._context.health.turn(NAME, False, f"the log takes no answers: {obstacle}")
            return
        if any(worker.stands_still for worker in workers):
            return
        failing = [worker for worker in workers if worker.obstacle]
        late = [worker for worker in workers if not worker.loaded or worker.behind > MAX_READY_FRAMES]
        why = f"holds {len(workers)} of {shards} shards"
        if late:
            first = late[0]
            doing = f"{say_count(first.behind, 'frame')} behind" if first.loaded else "loads its state"
            why += f"; shard {first.shard.number} {doing}"
        if failing:
            why += f"; shard {failing[0].shard.number} {failing[0].obstacle}"
        self._context.health.turn(NAME, not late and not failing, why, REPLAYING if late else WORKING)

    def _end_workers(self) -> None:
        """End the workers of all shards, each with a last snapshot."""
        self._context.health.note_wait(NAME, "takes last snapshots", self._context.settings.stop_timeout_s)
        for worker in self._workers.values():
            worker.stop()
        end = time.monotonic() + self._context.settings.stop_timeout_s
        for worker in self._workers.values():
            worker.join(max(0.0, end - time.monotonic()))
