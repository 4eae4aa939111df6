"""The judge: takes up its state, stands for election, follows whoever is elected, and publishes when it is."""

from __future__ import annotations

import logging

from stream.log.base import FINGERPRINTS, Log
from stream.roles.context import Context
from stream.roles.first_frame import check_recipe
from stream.roles.following import NAME, Fitting, Following
from stream.roles.judging import Judging
from stream.roles.keeper import Keeper, Unkept
from stream.roles.publishing import Publishing
from stream.roles.retention import Retention
from stream.text.policy import Policy

_log = logging.getLogger("simstream.judge")


class JudgeRole:
    """One of the judges that stand for election over a log. `run` works until `context.stop` is set, or raises.

    State comes from the folder of the setting `state`, else from nothing; the log's frames from there to the
    published position are judged again silently. While another judge is elected, this one follows that position.
    """

    def __init__(self, log: Log, policy: Policy, context: Context) -> None:
        self._log = log
        self._policy = policy
        self._context = context
        self._judging = Judging(policy, context, NAME)
        context.metrics.elected.labels(NAME)

    @property
    def next_frame(self) -> int:
        """The frame of the log that it judges next. From any thread."""
        return self._judging.next_frame

    def run(self) -> None:
        """Raises StateError in all its kinds (such as WrongPolicy, TakenOver, StateLocked) and LogError."""
        self._context.health.starting(NAME, self._context.settings.give_up_s)
        fitting = Fitting(self._log, self._policy)
        check_recipe(self._log, self._policy.recipe_id)
        with self._log.publisher() as publisher:
            published = fitting(publisher.committed())  # who does not fit must not be elected, nor fence who does
        with self._judging, keeper_of(self._judging, fitting.log_id, self._context) as keeper:
            keeper.load(published, self._log.low_watermarks(FINGERPRINTS)[0])
            self._stand(fitting, keeper)

    def _stand(self, fitting: Fitting, keeper: Unkept) -> None:
        """Follow until elected, then publish."""
        with (
            Retention(self._log, keeper, self._context),
            self._log.reader(FINGERPRINTS, self._judging.next_frame) as reader,
            self._log.election() as election,  # stepped down from last, when all is committed
            self._log.publisher() as publisher,
        ):
            following = Following(self._log, reader, self._judging, fitting, keeper, self._context)
            following.follow(lambda: election.elected)
            if self._context.stop.is_set():
                return
            published = fitting(publisher.start())
            if published is not None:
                following.replay(published)
            if not self._context.stop.is_set():
                publishing = Publishing(fitting.log_id, reader, self._judging, keeper, self._context)
                publishing.run(publisher, election)


def keeper_of(judging: Judging, log_id: str, context: Context) -> Unkept:
    """What keeps the state where the setting `state` says. Raises StateLocked, StateDamaged, StateFormat."""
    if context.settings.state:
        return Keeper(context.settings.state, judging.state, log_id, context)
    _log.info("the state is in memory alone: a restart judges the log again (--state DIR keeps it)")
    return Unkept()
