"""Collects what log, processes and state say, and what needs a person.

Only looks: it joins no group, fences no judge, commits nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from simstream.amounts import say_count, say_pages
from simstream.errors import (
    BrokerUnreachable,
    FrameDamaged,
    FrameFormat,
    SimstreamError,
    TopicMissing,
    UsageError,
)
from simstream.judge.acceptor import say_offset
from simstream.judge.answer_book import few_shards
from simstream.judge.policy import make_policy
from simstream.log import setting_for_matchers
from simstream.log.base import REPLICATION, Log, position_missing
from simstream.log.command_hints import LOST_POSITION, USUAL_SHARDS
from simstream.log.committed_records import committed
from simstream.log.options import FINGERPRINTS, MATCHES, PAGES, POSITIONS, TOPICS, VERDICTS, LogOptions
from simstream.log.participants import GroupMember
from simstream.model import Record
from simstream.roles.fingerprint.first_frame import recipe_id_of_log
from simstream.roles.topics import ALTER, REASSIGN, RETENTION, remedy, unfit_settings
from simstream.settings import Settings
from simstream.telemetry.health import WORKING
from simstream.text.recipe_file import load_recipe
from simstream.tools.explain.policy import flags_of
from simstream.tools.gaps import read_through, removed_pages
from simstream.tools.status.processes import ProcessStatus, SnapshotStatus
from simstream.tools.status.shards import ShardStatus, look_at_shards, silent_shards
from simstream.wire import frame as frames
from simstream.wire import position as positions
from simstream.wire.position import Position


class StatusProblem(msgspec.Struct, frozen=True):
    """Something that needs a person, and what to do."""

    what: str
    todo: str


class TopicStatus(msgspec.Struct, frozen=True):
    """A topic. Offsets are sums over its partitions."""

    name: str
    id: str | None
    partitions: int
    first: int
    end: int


class PartitionLag(msgspec.Struct, frozen=True):
    """One partition of `pages`. `read` is None if no fingerprinter has committed. `waiting` counts offsets, and
    `uncommitted` those from the first open transaction of a writer on: nobody can read these yet."""

    partition: int
    first: int
    read: int | None
    end: int
    waiting: int
    uncommitted: int = 0


class ServiceStatus(msgspec.Struct):
    """The status of a service. What is unknown or missing is None or empty."""

    log: str
    prefix: str
    reached: bool = True
    """Whether the log answered. If not, nothing of it is known."""
    topics: list[TopicStatus] = []
    source: list[PartitionLag] = []
    recipe: str | None = None
    published: Position | None = None
    verdicts: int | None = None
    """The number of published verdicts, also of removed ones. It comes from the position: offsets also count the
    markers of transactions."""
    unpublished_frames: int | None = None
    """Frames after the published position, also frames that will be ignored; 0 if none of them holds a page."""
    fingerprinters: list[str] = []
    judges: list[GroupMember] = []
    last_publisher: str | None = None
    shards: list[ShardStatus] = []
    """The shards of an index on matchers; empty if the judge has its own index."""
    gaps: dict[int, int | None] | None = None
    """Partitions that wait for missing pages, with the offset of the first; None if this was not checked."""
    processes: list[ProcessStatus] = []
    snapshots: list[SnapshotStatus] = []
    wrong: list[StatusProblem] = []


class StatusWithoutLog:
    """Collects what processes and the state folder say about a service, without its log."""

    def __init__(self, address: str, prefix: str) -> None:
        self.status = ServiceStatus(address, prefix)
        self._first_frame = 0
        """The first frame that the log still has."""
        self._folder = ""
        """The setting `state` as a shell takes it; empty if it is not given."""

    @property
    def _kept(self) -> str:
        """The flag `--state DIR` for advice, if the setting is given."""
        return self._folder and f" --state {self._folder}"

    @property
    def _hint(self) -> str:
        """What such advice lacks, if the log was cut and the setting is not given."""
        if self._kept or not self._first_frame:
            return ""
        return f"; give it the judge's --state, as the log begins at frame {self._first_frame}"

    def unreached(self, error: BrokerUnreachable) -> None:
        """Note that no broker answered, so that nothing of the log is known."""
        self.status.reached = False
        self._wrong(error.what, error.todo)

    def add(self, processes: list[ProcessStatus], snapshots: list[SnapshotStatus]) -> None:
        """Add what the processes and the state folder say."""
        self.status.processes, self.status.snapshots = processes, snapshots
        for process in processes:
            if process.error is not None:
                self._wrong(
                    f"nothing answers at {process.address} ({process.error})",
                    "start that process, or correct --http",
                )
            elif not process.live:
                self._wrong(f"{process.address} is stuck: {process.why}", "look at its log, and start it again")
            for name, role in process.roles.items():
                if not role.ready and role.state == WORKING:
                    self._wrong(f"{name} at {process.address}: {role.why}", "look at its log")
        published = self.status.published
        for snapshot in snapshots:
            if snapshot.error is not None:
                self._wrong(snapshot.error, f"run: simstream state verify {snapshot.folder}")
        frames = [snapshot.frame for snapshot in snapshots if snapshot.frame is not None]
        if published and frames and min(frames) > published.frame:
            self._wrong(
                f"every snapshot is ahead of the published position (frame {min(frames)}, {published.frame})",
                "check that --state belongs to this log; or delete the folder, and the judge reads the log again",
            )
        if self._folder and self._first_frame > max(frames, default=0):
            self._wrong(
                f"the log begins at frame {self._first_frame}, but no snapshot in {self._folder} reaches it: "
                "no judge can start from that folder",
                "if a judge runs, do not stop it before its next snapshot (`snapshot_every`); else give --state "
                "the folder of the last judge's state, or choose another --prefix",
            )

    def _wrong(self, what: str, todo: str) -> None:
        self.status.wrong.append(StatusProblem(what, todo))


class StatusReader(StatusWithoutLog):
    """Collects a `ServiceStatus`. `how` are the flags that name the log, for commands in advice.

    `options` are those of the log.
    """

    def __init__(self, log: Log, address: str, options: LogOptions, how: str) -> None:
        super().__init__(address, options.prefix)
        self._log = log
        self._options = options
        self._how = how
        self._matches = ""
        """The flag `--matches NAME` likewise."""

    def look(self, settings: Settings, gaps: bool = False) -> None:
        """Ask the log. With `gaps`, read the log: all of it, or its part after the newest snapshot of `state`.

        Raises BrokerUnreachable and other errors of the log, StateError."""
        status = self.status
        missing = self._look_at_topics()
        if missing:
            names = ", ".join(map(self._options.full_name, missing))
            lost = LOST_POSITION if POSITIONS in missing and VERDICTS not in missing else ""
            self._wrong(f"topics are missing: {names}", f"run: simstream topics create {self._how}{lost}")
        running = self._log.running()
        status.fingerprinters = list(running.fingerprinters)
        status.judges = list(running.judges)
        status.last_publisher = running.publisher
        if running.stranger is not None:
            self._wrong(
                f"{running.stranger} is elected in the judges' group, and is no judge: no verdict can be published",
                "stop that program, or give it another group",
            )
        if len(status.topics) < len(TOPICS):
            return
        self._first_frame = self._log.low_watermarks(FINGERPRINTS)[0]
        if settings.state:
            self._folder = shlex.quote(settings.state)
        sharded = self._count_shards(settings) > 0
        if sharded:
            self._add_topic(MATCHES)
        self._look_at_settings(settings, (*TOPICS, MATCHES) if sharded else TOPICS)
        status.recipe = recipe_id_of_log(self._log)
        self._read_position()
        self._look_at_source(settings)
        fits = self._look_at_publishing(settings)
        if sharded:
            status.shards = look_at_shards(self._log, running.matchers)
            if fits:
                self._look_for_answers()
        if gaps and status.recipe is not None:
            self._look_for_gaps(settings.state)

    def _look_at_topics(self) -> list[str]:
        """Add the topics that exist. Returns the missing ones."""
        missing = []
        for topic in TOPICS:
            try:
                self._add_topic(topic)
            except TopicMissing as error:
                if self._log.partitions_of(topic) is None:
                    missing.append(topic)
                else:
                    self._wrong(error.what, error.todo)  # a topic of a folder whose file is gone
        return missing

    def _add_topic(self, topic: str) -> None:
        info = self._log.topic(topic)
        lows, ends = self._log.low_watermarks(topic), self._log.end_offsets(topic)
        self.status.topics.append(
            TopicStatus(info.name, info.id, info.partitions, sum(lows.values()), sum(ends.values()))
        )

    def _look_at_settings(self, settings: Settings, topics: Sequence[str]) -> None:
        for topic, found in unfit_settings(self._log, topics, settings).items():
            name = self._log.topic(topic).name
            for one in found:
                todo = REASSIGN if one.setting == REPLICATION else f"set it with {ALTER}"
                if one.breaks:
                    todo = remedy(topic, one, f"simstream topics create {self._how}")
                elif one.setting == RETENTION:
                    todo += "; or run the judge with --state DIR, and keep the log for longer than the window"
                self._wrong(f"{name} endangers the service ({one})", todo)

    def _look_at_source(self, settings: Settings) -> None:
        lows, read = self._log.low_watermarks(PAGES), self._log.source_offsets()
        uncommitted = self._log.uncommitted(PAGES)
        ends = self._log.end_offsets(PAGES)  # last: what was read of them lies before
        for partition, low in sorted(lows.items()):
            next_one, end = read.get(partition), ends.get(partition, low)
            waiting = max(0, end - max(low, next_one or 0))
            lag = PartitionLag(partition, low, next_one, end, waiting, uncommitted.get(partition, 0))
            self.status.source.append(lag)
            if next_one is not None and next_one < low:
                self._wrong(
                    f"partition {partition} of pages lost offsets {next_one} to {low - 1} before they were read",
                    f"run: simstream source skip {self._how}{self._kept}{self._hint}",
                )
        waiting = sum(lag.waiting for lag in self.status.source)
        if waiting and not self.status.fingerprinters:
            both = ""
            if not self.status.judges:
                flags = f"{self._policy(settings)}{self._kept}".strip()
                both = f"; no judge runs either: leave out --roles to run both{flags and f', with {flags}'}"
                both += self._hint
            self._wrong(
                f"{say_pages(waiting, 'waits', 'wait')}, and no fingerprinter runs",
                "start one, unless it has just started and compiles: simstream serve --roles fingerprint "
                f"{self._how}{both}",
            )

    def _read_position(self) -> None:
        with self._log.open_publisher() as publisher:
            data = publisher.committed()
        self.status.published = positions.decode(data) if data is not None else None

    def _look_at_publishing(self, settings: Settings) -> bool:
        """Return whether a judge could go on from the published position."""
        status = self.status
        published = status.published
        end = self._log.end_offsets(FINGERPRINTS)[0]  # after the position, which would else be ahead of it at work
        status.verdicts = published.ordinal if published else 0
        status.unpublished_frames = self._frames_to_go(published.frame if published else 0, end)
        if misfit := self._misfit(end):
            self._wrong(*misfit)
            return False
        if status.unpublished_frames and not status.judges:
            policy = self._policy(settings)
            self._wrong(
                f"{_say_waiting(status.unpublished_frames)}, and no judge runs",
                f"start one{policy and f' with {policy}'}: simstream serve --roles judge {self._how}{self._kept}"
                f"{self._hint}",
            )
        return True

    def _policy(self, settings: Settings) -> str:
        """Return what makes the published policy, if these settings make another one."""
        published, recipe_id = self.status.published, self.status.recipe
        if published is None or recipe_id is None:
            return ""
        try:
            recipe = load_recipe(settings.recipe)
            given = settings.distance, settings.similarity, settings.window_ms, settings.link
            if make_policy(recipe, recipe_id, *given).id == published.policy:
                return ""
        except SimstreamError:  # another recipe file than the judge's, or none
            return ""
        return flags_of(published.policy, recipe_id, recipe) or "the settings of its policy"

    def _misfit(self, end: int) -> tuple[str, str] | None:
        """Return why no judge can go on from the published position, and what to do; `end`: that of the log."""
        published = self.status.published
        if published is None:
            removed = any(self._log.low_watermarks(VERDICTS).values())
            if not removed and not any(committed(self._log, VERDICTS, 1)):
                return None
            missing = position_missing(*map(self._options.full_name, (VERDICTS, POSITIONS)))
            return missing.what, missing.todo
        log_id = self._log.topic(FINGERPRINTS).id
        if published.log_id != log_id:
            return (
                f"verdicts were published for the log {published.log_id}, this one is {log_id}",
                "choose another --prefix if the topic `fingerprints` was created again; if it is a copy in another "
                "cluster, publish under another prefix with `simstream replay --to`",
            )
        if published.frame > end:
            return (
                f"the log ends at frame {end}, verdicts were published up to frame {published.frame}",
                "restore the topic `fingerprints`, or choose another --prefix",
            )
        return None

    def _count_shards(self, settings: Settings) -> int:
        """Return the number of shards on matchers; 0 for a judge with its own index."""
        if settings.shards == 0:
            return 0
        if settings.matches != MATCHES:
            self._matches = f" --matches {settings.matches}"
        found, topic = self._log.shards() or 0, self._options.full_name(MATCHES)
        if not found and (asked := setting_for_matchers(settings)):
            flags = f"--shards {settings.shards or USUAL_SHARDS}{self._matches} {self._how}"
            self._wrong(f"{asked}, but there is no topic {topic}", f"run: simstream topics create {flags}")
        elif found and settings.shards not in (None, found):
            self._wrong(
                f"shards is {settings.shards}, and {topic} has {found} partitions",
                f"set shards to {found}; for another number of shards create a topic with another --matches",
            )
        return found

    def _look_for_answers(self) -> None:
        """Say which shards do not answer the frames that wait: no matcher holds them, or the answers are gone."""
        status = self.status
        if not status.unpublished_frames:
            return
        shards, wait = status.shards, _say_waiting(status.unpublished_frames)
        begin = status.published.frame if status.published else 0
        if alone := [one.shard for one in shards if not one.owners]:
            self._wrong(
                f"{wait}, and no matcher holds shard {few_shards(alone)} of {len(shards)}",
                f"start matchers: simstream serve --roles match{self._matches} {self._how}{self._kept} "
                "(a judge with its own index needs none: set shards = 0)",
            )
        elif silent := silent_shards(self._log, begin):
            self._wrong(
                f"{wait}, and shard {few_shards(silent)} has no answer to frame {begin} any more",
                "start the matchers again: they answer these frames anew",
            )

    def _frames_to_go(self, begin: int, end: int) -> int:
        """Return how many frames wait for a judge. Reads them up to the first one with a page.

        A fingerprinter may leave frames without pages when it stops. They get no verdict, and no judge is needed.
        """
        if begin >= end:
            return 0
        waiting = (record for records in committed(self._log, FINGERPRINTS, 16, begin) for record in records)
        return end - begin if any(map(_has_pages, waiting)) else 0

    def _look_for_gaps(self, state: str | None) -> None:
        try:
            found = read_through(self._log, state)
        except UsageError as error:
            if not state:  # else `add` says what this log needs
                self._wrong(error.what, error.todo)
            return
        self.status.gaps = {partition: found.positions[partition] for partition in sorted(found.gaps)}
        removed = removed_pages(self._log, found.positions)
        how = "skip" if removed else "rewind"  # to skip also rewinds: only what was removed is given up
        for partition, offset in self.status.gaps.items():
            gone = (
                f", and retention removed those before offset {removed[partition][1]}"
                if partition in removed
                else ""
            )
            self._wrong(
                f"partition {partition} has a gap: the log waits for pages from {say_offset(offset)} on{gone}",
                f"stop the fingerprinters, then: simstream source {how} {self._how}{self._kept}",
            )


def _say_waiting(frames: int) -> str:
    return f"{say_count(frames, 'frame')} {'waits for its' if frames == 1 else 'wait for their'} verdicts"


def _has_pages(frame: Record) -> bool:
    """Return whether a judge has work with this frame: not with a damaged one, but with one of a newer version."""
    try:
        return len(frames.decode(frame.value or b"").columns) > 0
    except FrameFormat:
        return True
    except FrameDamaged:
        return False
