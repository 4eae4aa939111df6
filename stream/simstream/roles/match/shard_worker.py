"""Answers the frames of the log from one shard, in a thread of its own."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec import structs

from simstream.closing import Closing
from simstream.errors import WrongLog
from simstream.files.names import SHARDS
from simstream.index.plan import divided_plan
from simstream.index.shard import Shard
from simstream.judge.policy import Policy
from simstream.judge.seen_keys import SeenKeys
from simstream.judge.state import ShardState
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS, MATCHES, POSITIONS
from simstream.roles.context import RoleContext
from simstream.roles.judge.log_follower import FRAMES_A_POLL, PublishedPositionCheck, log_ends_early
from simstream.roles.judge.log_judge import check_next, in_batches
from simstream.roles.judge.snapshots import LoadStoppedError, NoSnapshots, SnapshotKeeper, stoppable
from simstream.roles.match.answer_writer import AnswerWriter
from simstream.roles.match.answered_frames import answered_frames, unbroken_end
from simstream.settings import Settings
from simstream.wire.answer import AnswerHeader
from simstream.wire.position import Position

POLL_S: Final = 0.1
ANSWER_GAP_S: Final = 0.0001
"""A shard that has answered waits so long for each shard of the topic, from one poll to the next, so that frames
gather: an answer costs the judge about half of it, of however few pages."""
MEASURE_EVERY_S: Final = 1.0
"""Seconds between two measurements of a shard's size."""
MIN_SHARE: Final = 64
"""Published pages are taken in without answers if there are more than one for so many entries of the index: to go
over all entries costs .2 us each, and an answer 10 us."""
_logger = logging.getLogger("simstream.match")


def matcher_name(settings: Settings) -> str:
    """Return what people call this matcher: its instance, else its machine and process."""
    return settings.instance or f"{socket.gethostname()}:{os.getpid()}"


class PositionWatch(Closing):
    """Follows the position that the judge publishes. Raises what `PublishedPositionCheck.decode` raises."""

    def __init__(self, log: Log, check: PublishedPositionCheck) -> None:
        self._check = check
        self._reader = log.open_reader(POSITIONS, "end")
        with log.open_publisher() as publisher:  # the reader brings later positions
            self.published: Position | None = check.decode(publisher.committed())

    def look(self, timeout: float) -> None:
        """Take the last position that was published since the last look; wait up to `timeout` seconds for one."""
        for record in self._reader.poll(10_000, timeout)[-1:]:
            self.published = self._check.decode(record.value)

    def close(self) -> None:
        self._reader.close()


@dataclass(frozen=True, slots=True)
class MatcherContext:
    """What all shards of one matcher share."""

    log: Log
    log_id: str
    """The unique id of the topic `fingerprints`."""
    policy: Policy
    position: PositionWatch
    writer: AnswerWriter
    role: RoleContext


class ShardSnapshots(SnapshotKeeper):
    """Takes and loads the snapshots of one shard's state."""

    reach = "its shard must answer from frame"


class ShardWorker(threading.Thread):
    """One shard: its state, its reader, and its snapshots in a folder of its own."""

    def __init__(self, matcher: MatcherContext, shard: Shard) -> None:
        super().__init__(name=f"shard {shard.number}", daemon=True)
        self.shard = shard
        self.error: BaseException | None = None
        self.behind = 0
        """Frames below the published position that this shard has not yet read."""
        self.loaded = False
        """Whether the state is loaded."""
        self.obstacle = ""
        """Why the disk takes no snapshot; empty if it does."""
        self.turned = time.monotonic()
        """When the loop turned last, in seconds of the monotonic clock."""
        self._log, self._log_id, self._policy = matcher.log, matcher.log_id, matcher.policy
        self._position, self._writer, self._role = matcher.position, matcher.writer, matcher.role
        self._stop_asked = threading.Event()
        self._tables = divided_plan(self._policy.distance).tables
        self._holder = self._role.settings.copy, matcher_name(self._role.settings)
        self._next_measure = 0.0

    def stop(self) -> None:
        """Ask the thread to end: it takes a last snapshot if it can."""
        self._stop_asked.set()

    @property
    def stands_still(self) -> bool:
        """Whether the loop has not turned for `stuck_after`. The last snapshot may take `give_up_after` longer."""
        settings = self._role.settings
        patience_s = settings.stuck_after_s + (settings.give_up_s if self._stop_asked.is_set() else 0.0)
        return self.loaded and time.monotonic() - self.turned > patience_s

    @property
    def folder(self) -> Path | None:
        """Where the shard's state is kept, also after the shard was given back; None: in memory alone."""
        settings = self._role.settings
        if not settings.state:
            return None
        name = f"{self.shard.number}-of-{self.shard.count}"
        if settings.matches != MATCHES:
            name = f"{settings.matches}.{name}"
        return Path(settings.state) / SHARDS / name

    def run(self) -> None:
        """Answer until `stop`. If an error ends the thread, `error` has it."""
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001  # the role raises it
            self.error = error
        finally:
            self._role.metrics.forget_shard(self.shard.number, *self._holder)

    def _beat(self) -> None:
        self.turned = time.monotonic()

    def _published_frame(self) -> int:
        published = self._position.published
        return published.frame if published else 0

    def _run(self) -> None:
        while not self._work():
            self.loaded = False

    def _work(self) -> bool:
        """Answer until `stop`. Return False if the state was of frames that the log has lost, and is set aside."""
        published = self._position.published
        first, log_begins = self._find_first(published), self._log.low_watermarks(FINGERPRINTS)[0]
        begin = published and structs.replace(published, frame=first)
        with (
            suppress(LoadStoppedError),
            ShardState(self._policy, self.shard, background=True, beat=self._beat) as state,
            self._open_snapshots(state) as snapshots,
        ):
            if self._stop_asked.is_set():
                return True
            loaded = snapshots.load(begin, log_begins, stoppable(self._beat, self._stop_asked))
            try:
                if published and loaded and first < published.frame:
                    self._look_ahead(state, snapshots, published)
                self.loaded = True
                self._answer(state, snapshots, first, published)
            except WrongLog as error:
                if not snapshots.disowned:
                    raise
                again, number = "%s; shard %d begins again without it, and keeps it in `damaged`", self.shard.number
                _logger.error(again, error.what, number, extra={"shard": number})
                return False
            snapshots.finish(state.acceptor.next_frame, state.acceptor.ordinal, self._published_frame())
        return True

    def _find_first(self, published: Position | None) -> int:
        """Return the frame at which this shard begins to answer.

        It is the published position, or the end of the shard's answers if they end earlier. Usually every shard has
        answered all published frames. A new topic of answers lacks them: it has another number of shards, or was
        created again, perhaps while matchers ran, so that it begins with answers to later frames. A judge without a
        snapshot needs them all, one behind the other.
        """
        number = self.shard.number
        if published is None:
            return 0
        wanted = self._log_id, self._policy.id, self.shard.count, self._tables

        def is_counted(header: AnswerHeader) -> bool:
            return (header.log_id, header.policy, header.shards, header.tables) == wanted

        answered = answered_frames(self._log, is_counted, published.frame, [number])[number]
        if self._log.low_watermarks(MATCHES)[number]:
            if answered is None:
                return published.frame  # its earlier answers were removed on purpose
        elif answered and (end := unbroken_end(self._log, is_counted, number)) is not None:
            answered = end
        return min(answered or 0, published.frame)

    def _open_snapshots(self, state: ShardState) -> NoSnapshots:
        if self.folder is None:
            return NoSnapshots()
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        return ShardSnapshots(str(self.folder), state, self._log_id, self._role, logger=_logger)

    def _look_ahead(self, state: ShardState, snapshots: NoSnapshots, published: Position) -> None:
        """Check where the log leads a loaded state, by its acceptor alone: a wrong answer would count for ever."""
        acceptor = deepcopy(state.acceptor)
        with self._log.open_reader(FINGERPRINTS, acceptor.next_frame) as reader:
            while acceptor.next_frame < published.frame and not self._stop_asked.is_set():
                self._beat()
                records = reader.poll(min(published.frame - acceptor.next_frame, FRAMES_A_POLL), POLL_S)
                if not records and reader.caught_up():
                    raise log_ends_early(acceptor.next_frame, published)
                for record in records:
                    check_next(acceptor.next_frame, record)
                    acceptor.accept(record.offset, record.value or b"", record.timestamp)
        if acceptor.next_frame == published.frame:
            snapshots.check(acceptor.place, published)

    def _answer(self, state: ShardState, snapshots: NoSnapshots, first: int, published: Position | None) -> None:
        """Read the log, and answer its frames from `first` on. Many frames below it are taken in unanswered.

        Raises WrongLog if the log does not lead to the `published` position, before answers behind it.
        """
        acceptor, ahead = state.acceptor, self._role.settings.max_ahead
        seen = self._make_seen_keys(state, first) if first else None
        unchecked = published
        with self._log.open_reader(FINGERPRINTS, acceptor.next_frame) as reader:
            while not self._stop_asked.is_set():
                self._beat()
                if unchecked and acceptor.next_frame == unchecked.frame:
                    snapshots.check(acceptor.place, unchecked)
                    unchecked = None
                room = self._published_frame() + ahead - acceptor.next_frame
                most = min(room, FRAMES_A_POLL)
                if unchecked:
                    most = min(most, unchecked.frame - acceptor.next_frame)
                self.behind = max(0, self._published_frame() - acceptor.next_frame)
                if room <= 0:
                    reader.answers()  # lets the client report
                    self._stop_asked.wait(POLL_S)
                records = reader.poll(most, POLL_S) if room > 0 else []
                next_poll = time.monotonic() + ANSWER_GAP_S * self.shard.count
                if records:
                    snapshots.note_frame(records[0].offset, records[0].timestamp)
                elif unchecked and reader.caught_up():
                    raise log_ends_early(acceptor.next_frame, unchecked)
                for batch in in_batches(records):
                    check_next(acceptor.next_frame, batch[0])
                    if seen is not None and batch[-1].offset < first:
                        state.take_in(batch, seen)
                    else:
                        for data in state.encode_answers(batch, self._log_id):
                            if acceptor.next_frame > first:
                                self._writer.write(self.shard.number, data)
                    self._beat()
                if acceptor.next_frame >= first:
                    seen = None
                self._measure(state)
                snapshots.turn(acceptor.next_frame, acceptor.ordinal, self._published_frame())
                self.obstacle = snapshots.why
                if records and seen is None:
                    self._stop_asked.wait(max(0.0, next_poll - time.monotonic()))

    def _make_seen_keys(self, state: ShardState, first: int) -> SeenKeys | None:
        """Return the keys of the state, with room for those of the published pages; None if few pages are left."""
        published = self._position.published
        left = published.ordinal - state.acceptor.ordinal if published else 0
        if state.acceptor.next_frame >= first or left <= len(state.index) // MIN_SHARE:
            return None
        shard = self.shard.number
        where = {"shard": shard, "frame": first}
        _logger.info("shard %d takes in the frames below %d without answering them", *where.values(), extra=where)
        return state.matcher.collect_keys(left)

    def _measure(self, state: ShardState) -> None:
        """Set the metrics of the shard's next frame and, at most once in MEASURE_EVERY_S, of its size."""
        metrics, shard = self._role.metrics, self.shard.number
        metrics.shard_position.labels(shard).set(state.acceptor.next_frame)
        metrics.shard_replay.labels(shard).set(self.behind)
        now = time.monotonic()
        if now >= self._next_measure:
            self._next_measure = now + MEASURE_EVERY_S
            metrics.shard_info.labels(shard, *self._holder).set(1)
            metrics.shard_entries.labels(shard).set(len(state.index))
            metrics.shard_bytes.labels(shard).set(sum(state.matcher.nbytes().values()))
