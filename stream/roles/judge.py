"""The judge: stands for election, judges the log, and publishes verdicts together with its position."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence

from stream.log.base import FINGERPRINTS, Election, Log, Outgoing, Publisher, Reader
from stream.model import Verdict
from stream.roles.context import Context
from stream.roles.first_frame import check_recipe
from stream.roles.following import FRAMES_A_POLL, NAME, Fitting, Following
from stream.roles.judging import Judging
from stream.roles.outbox import Batch, Outbox
from stream.text.policy import Policy
from stream.wire import position as positions
from stream.wire import verdict as wire

SLOW_S = 3.0
"""A commit that takes longer makes the judge unready."""
LOOK_EVERY_S = 1.0
"""Between two looks for a newer publisher, while the election is lost."""
_log = logging.getLogger("simstream.judge")


class JudgeRole:
    """One of the judges that stand for election over a log. `run` works until `context.stop` is set, or raises.

    State is rebuilt from the log at start: frames below the published position are judged again silently. While
    another judge is elected, this one follows that position.
    """

    def __init__(self, log: Log, policy: Policy, context: Context) -> None:
        self._log = log
        self._policy = policy
        self._context = context
        self._judging = Judging(policy, context)
        self._elected = context.metrics.elected.labels(NAME)
        self._next_look = 0.0

    def run(self) -> None:
        """Raises WrongRecipe, WrongPolicy, WrongLog, PositionMissing, TakenOver, LogError."""
        self._context.health.starting(NAME, self._context.settings.give_up_s)
        fitting = Fitting(self._log, self._policy)
        check_recipe(self._log, self._policy.recipe_id)
        with self._log.publisher() as publisher:
            fitting(publisher.committed())  # one that does not fit must not be elected, nor fence one that does
        with (
            self._log.reader(FINGERPRINTS, 0) as reader,
            self._log.election() as election,  # stepped down from last, when all is committed
            self._log.publisher() as publisher,
        ):
            following = Following(self._log, reader, self._judging, fitting, self._context)
            following.follow(lambda: election.elected)
            if not self._context.stop.is_set():
                published = fitting(publisher.start())
                if published is not None:
                    following.replay(published)
                self._publish(reader, publisher, election, fitting.log_id)

    def _publish(self, reader: Reader, publisher: Publisher, election: Election, log_id: str) -> None:
        """Judge and publish until the end."""
        self._elected.set(1)
        give_up_s = self._context.settings.give_up_s
        with Outbox(publisher, self._committed, self._waiting, give_up_s) as outbox:
            while not self._context.stop.is_set():
                self._turn(reader, outbox, log_id)
                self._look_for_a_newer(publisher, election, reader.answers())
            outbox.finish()

    def _turn(self, reader: Reader, outbox: Outbox, log_id: str) -> None:
        """Judge what one poll brings and hand it to the outbox, which may make us wait."""
        records = reader.poll(FRAMES_A_POLL, 0.1)
        began = time.perf_counter()
        verdicts: list[Verdict] = []
        for record in records:
            verdicts += self._judging.take(record)
        self._judging.name_outgrown()
        if verdicts:
            self._context.metrics.batch.labels("judge").observe(time.perf_counter() - began)
            position = positions.encode(self._judging.position(log_id))
            outbox.put(Batch(_outgoing(verdicts), position, _kinds(verdicts), records[0].timestamp))
        outbox.check()
        self._judging.observe()
        self._context.metrics.last_poll.labels(NAME).set_to_current_time()
        self._context.health.turn(NAME, *self._state(outbox, reader.answers()))

    def _look_for_a_newer(self, publisher: Publisher, election: Election, answers: bool) -> None:
        """Raise TakenOver where the election is lost and another one has begun to publish.

        Lost alone is no reason to stop: the group may have missed us for a moment, and whom it elects instead may
        never begin. Publishing goes on until the newer fences us; one that has nothing to publish must look.
        """
        lost = election.lost
        self._elected.set(not lost)
        now = time.monotonic()
        if lost and answers and now >= self._next_look:
            self._next_look = now + LOOK_EVERY_S
            publisher.check()

    def _committed(self, batch: Batch) -> None:
        """Called by the outbox once a batch is committed."""
        metrics = self._context.metrics
        for kind, number in batch.kinds.items():
            metrics.verdicts.labels(kind).inc(number)
        metrics.latency.observe(max(0.0, time.time() - batch.appended_ms / 1000))

    def _waiting(self, outbox: Outbox) -> None:
        """Called by the outbox while it is full."""
        self._context.health.turn(NAME, *self._state(outbox))

    def _state(self, outbox: Outbox, answers: bool = True) -> tuple[bool, str]:
        """Whether it is ready, and why not."""
        why = self._judging.open_gap() or ""
        if outbox.busy_s > SLOW_S:
            why = "verdicts wait to be published"
        elif not why and not answers:
            why = "the log does not answer"
        return not why, why


def _outgoing(verdicts: Sequence[Verdict]) -> list[Outgoing]:
    return [
        Outgoing(verdict.id.encode(), wire.encode(verdict), (("verdict", verdict.verdict.encode()),))
        for verdict in verdicts
    ]


def _kinds(verdicts: Sequence[Verdict]) -> Counter[str]:
    return Counter(verdict.verdict for verdict in verdicts)
