"""Decides what a judge does next: load its state, follow, stand for election, publish."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial

from simstream.closing import Closing
from simstream.errors import SettingsError, TopicMissing, WrongLog
from simstream.index.plan import divided_plan
from simstream.judge.answer_book import AnswerBook, few_shards
from simstream.judge.policy import Policy
from simstream.judge.shard_matcher import check_link
from simstream.log import setting_for_matchers
from simstream.log.base import Election, Log, Reader
from simstream.log.options import FINGERPRINTS, MATCHES, VERDICTS
from simstream.roles.context import RoleContext
from simstream.roles.fingerprint.first_frame import check_recipe
from simstream.roles.judge.answered_reader import AnsweredReader
from simstream.roles.judge.log_follower import MAX_READY_FRAMES, NAME, LogFollower, PublishedPositionCheck
from simstream.roles.judge.log_judge import LogJudge
from simstream.roles.judge.retention import RetentionWatch
from simstream.roles.judge.snapshots import LoadStoppedError, NoSnapshots, SnapshotKeeper, stoppable
from simstream.roles.judge.verdict_format import VerdictFormat, find_format
from simstream.roles.judge.verdict_publisher import VerdictPublisher
from simstream.roles.match.answered_frames import shards_without
from simstream.roles.topics import (
    JUDGED,
    JUDGED_WITH_SHARDS,
    check_shards,
    check_topics,
    warn_of_lost_verdicts,
)
from simstream.wire.position import Position

_logger = logging.getLogger("simstream.judge")


class JudgeRole:
    """One of the judges that stand for election over a log. `run` works until `context.stop` is set, or raises.

    The state comes from the folder of the setting `state`, if there is one. The judge then judges the log's frames
    again, up to the published position, and publishes none of these verdicts. While another judge is elected, this
    one follows the published position.
    """

    def __init__(self, log: Log, policy: Policy, context: RoleContext) -> None:
        self._log = log
        self._policy = policy
        self._context = context
        self._log_judge: LogJudge | None = None
        context.metrics.elected.labels(NAME)

    @property
    def next_frame(self) -> int:
        """The frame of the log that this judge judges next. Safe in any thread."""
        return self._log_judge.next_frame if self._log_judge else 0

    def run(self) -> None:
        """Judge until `context.stop` is set.

        Raises every StateError (such as WrongPolicy, TakenOver, StateLocked), every LogError, and the errors of
        `find_format`.
        """
        self._context.health.expect(NAME, self._context.settings.give_up_s)
        check_topics(self._log, JUDGED)
        check_recipe(self._log, self._policy.recipe_id)
        position_check = PublishedPositionCheck(self._log, self._policy)
        with self._log.open_publisher() as publisher:
            # Before the election: a misconfigured judge must never fence a good one.
            published = position_check.decode(publisher.committed())
        verdict_format = find_format(self._log.topic(VERDICTS).name, published, self._context)
        if verdict_format is None:
            return
        position_check.expect(verdict_format.schema_id, published)
        book = self._open_book(position_check.log_id)
        log_judge = self._log_judge = LogJudge(self._policy, self._context, NAME, book)
        log_judge.state.index.look_up_by(self._context.settings.threads)
        with (
            suppress(LoadStoppedError),
            log_judge,
            open_snapshots(log_judge, position_check.log_id, self._context) as snapshots,
        ):
            load(NAME, snapshots, published, self._log, self._context)
            if book is not None:
                published_frame = published.frame if published else 0
                check_kept_answers(self._log, book, log_judge.next_frame, published_frame)
            frame = self._stand(log_judge, book, position_check, snapshots, verdict_format)
            finish(NAME, log_judge, snapshots, frame, self._context)

    def _open_book(self, log_id: str) -> AnswerBook | None:
        """Return a book for the answers of all shards; None for a judge with its own index.

        Raises SettingsError if a setting asks for matchers without their topic, if the shards are not those of the
        topic, or if the policy needs an own index.
        """
        wanted = self._context.settings.shards
        if wanted == 0:
            return None
        try:
            found = self._log.topic(MATCHES).partitions
        except TopicMissing as error:
            if asked := setting_for_matchers(self._context.settings):
                todo = f"{error.todo}; or give --shards 0, for an index of the judge's own"
                raise SettingsError(f"{asked}, but {error.what}", todo) from None
            return None
        check_shards(self._log, found, wanted)
        check_link(self._policy)
        check_topics(self._log, (MATCHES,))
        tables, topic = divided_plan(self._policy.distance).tables, self._log.topic(MATCHES)
        book = AnswerBook(log_id, self._policy.id, found, tables, topic.id)
        book.begin(0, 0, [0] * found)
        _logger.info("%d shards on matchers find the matches of this judge", found)
        return book

    def _open_reader(self, log_judge: LogJudge, book: AnswerBook | None) -> Reader:
        """Return a reader of the frames that can be judged, from the place of `log_judge` on."""
        frames = self._log.open_reader(FINGERPRINTS, log_judge.next_frame)
        if book is None:
            return frames
        offsets = dict(enumerate(book.offsets(log_judge.next_frame)))
        return AnsweredReader(frames, self._log.open_reader(MATCHES, offsets), book, self._context.metrics)

    def _stand(
        self,
        log_judge: LogJudge,
        book: AnswerBook | None,
        position_check: PublishedPositionCheck,
        snapshots: NoSnapshots,
        verdict_format: VerdictFormat,
    ) -> int:
        """Follow until elected, then publish until the service stops. Return the frame of the last commit."""
        with (
            RetentionWatch(self._log, snapshots, self._context, JUDGED_WITH_SHARDS if book else JUDGED),
            self._open_reader(log_judge, book) as reader,
            # The candidacy closes after the publisher, once everything is committed.
            JudgeCandidacy(self._log, self._context) as candidacy,
            self._log.open_publisher() as publisher,
        ):
            follower = LogFollower(self._log, reader, log_judge, position_check, snapshots, self._context)
            published = follower.follow(candidacy.is_elected)
            if not self._context.stop.is_set():
                why = "elected: ends the open transaction of the previous judge"
                self._context.health.note_wait(NAME, why, self._context.settings.give_up_s)
                published = position_check.decode(publisher.start())
                if published is not None:
                    warn_of_lost_verdicts(self._log, published.ordinal)
                    follower.replay(published)
            if self._context.stop.is_set():
                return published.frame if published else 0
            log_id = position_check.log_id
            verdict_publisher = VerdictPublisher(
                log_id, reader, log_judge, snapshots, self._context, verdict_format
            )
            return verdict_publisher.run(publisher, candidacy.election)


class JudgeCandidacy(Closing):
    """Stands for election once this judge is close to the published position.

    Otherwise a judge far behind would win the election, and a judge close to the position would wait for its
    replay. If no other judge publishes, the published position rests, so this judge soon is close.
    """

    def __init__(self, log: Log, context: RoleContext) -> None:
        self._log = log
        self._context = context
        self._election: Election | None = None

    @property
    def election(self) -> Election:
        """The candidacy; the first access stands for election. Raises TopicMissing, BrokerUnreachable."""
        if self._election is None:
            self._context.health.note_wait(NAME, "stands for election", self._context.settings.give_up_s)
            self._election = self._log.join_election()
        return self._election

    def is_elected(self, behind: int) -> bool:
        """Whether this judge is elected; it is `behind` frames behind. Raises LogError."""
        return (self._election is not None or behind <= MAX_READY_FRAMES) and self.election.elected

    def close(self) -> None:
        """Step down, if this judge stood for election."""
        if self._election is not None:
            self._election.close()


def load(name: str, snapshots: NoSnapshots, published: Position | None, log: Log, context: RoleContext) -> None:
    """Load the state, if there is one, with signs of life; see `SnapshotKeeper.load`.

    Raises LoadStoppedError once the service is asked to end.
    """
    beat = stoppable(partial(context.health.beat, name), context.stop)
    snapshots.load(published, log.low_watermarks(FINGERPRINTS)[0], beat)
    context.health.expect(name, context.settings.give_up_s)  # readers may wait for a broker


def finish(name: str, log_judge: LogJudge, snapshots: NoSnapshots, published: int, context: RoleContext) -> None:
    """Take a last snapshot at a clean stop, if `published` allows it.

    The disk may take long. Meanwhile another judge publishes, and health says what this judge waits for.
    """
    context.health.note_wait(name, "takes a last snapshot", context.settings.stop_timeout_s)
    snapshots.finish(log_judge.next_frame, log_judge.ordinal, published)


def open_snapshots(log_judge: LogJudge, log_id: str, context: RoleContext) -> NoSnapshots:
    """Return the snapshots in the folder of the setting `state`, or NoSnapshots without this setting.

    Raises StateLocked, StateDamaged, StateFormat.
    """
    if folder := context.settings.state:
        return SnapshotKeeper(folder, log_judge.state, log_id, context, logger=log_judge.logger)
    log_judge.logger.info("the state is in memory alone: a restart reads the log again (--state DIR keeps it)")
    return NoSnapshots()


def check_kept_answers(log: Log, book: AnswerBook, frame: int, published: int) -> None:
    """Raise WrongLog if a judge at this `frame` would wait for ever for an answer that was removed.

    Matchers that start answer frames from the `published` one on again, and earlier frames never. Asks the log a
    few questions, and reads answers only of shards that lack some.
    """
    topic, needed = log.topic(MATCHES).name, book.offsets(frame)
    lows, ends = log.low_watermarks(MATCHES), log.end_offsets(MATCHES)
    for shard, offset in enumerate(needed):
        if ends[shard] < offset:
            raise WrongLog(
                f"{topic} ends at offset {ends[shard]} in partition {shard}, and the state has read up to {offset}",
                "if that topic was deleted and created again, give judges and matchers empty folders; else check "
                "that --state belongs to this log",
            )
    cut = [shard for shard, offset in enumerate(needed) if offset < lows[shard]]
    lost = shards_without(log, book.is_own, cut, frame)
    if not lost:
        return
    what = f"{topic} has no answer of shard {few_shards(lost)} to frame {frame} any more"
    if frame < published:
        raise WrongLog(
            f"{what}: no matcher gives it again, and no state reaches that far",
            "give the folder of the last judge's state with --state, or bring up shards under another --matches",
        )
    if frame < log.end_offsets(FINGERPRINTS)[0]:
        _logger.warning("%s: if this judge waits for it, start the matchers again: they answer it anew", what)
