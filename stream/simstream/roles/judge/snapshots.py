"""Takes snapshots of a state while its role works, and loads one at a start.

    role's thread     turn: prepare ───────────────┐            turn: commit, once its frame is published
    its own thread                     write ──────┴─ waits ──┘

A judge and a role `query` have one state, a matcher one for each shard. The keeper takes a snapshot between two
polls and writes it while the role goes on. It puts the snapshot in place once the verdicts up to it are committed.
So no snapshot is ahead of the published position, unless the log loses a commit. `prepare` takes the longer the
more pages are live; it takes at most a twentieth of the time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from simstream.closing import Closing
from simstream.errors import StateDamaged, StateUnwritable, WrongLog, WrongPolicy, WrongRecipe
from simstream.files.file_system import FileSystem
from simstream.files.folder import LoadedSnapshot, StateFolder
from simstream.files.manifest import ManifestFile, Snapshot
from simstream.files.names import ASIDE
from simstream.files.save_pace import SHARE
from simstream.files.snapshot_writing import PreparedSnapshot
from simstream.judge.acceptor import LogPlace
from simstream.judge.expiry import Beat
from simstream.judge.pages.store import PageStore
from simstream.judge.state import LogState
from simstream.processors import call_in_daemon
from simstream.roles.context import RoleContext
from simstream.roles.judge.bit_rot import RotWatch
from simstream.wire.position import Position

_logger = logging.getLogger("simstream.judge")
RETRY_S = 2.0
"""Seconds between two tries to write a snapshot that the disk did not take."""


class LoadStoppedError(Exception):
    """A state is not loaded, as its role is asked to end: the role then ends without an error."""


def stoppable(beat: Beat, stop: threading.Event) -> Beat:
    """Return a `beat` for `SnapshotKeeper.load` that ends the load by LoadStoppedError once `stop` is set."""

    def beat_or_stop() -> None:
        beat()
        if stop.is_set():
            raise LoadStoppedError

    return beat_or_stop


class NoSnapshots(Closing):
    """Stands in for a SnapshotKeeper if the state is in memory alone: every restart reads the whole log again."""

    wanted = 0
    """The frame that must be published before the snapshot in work can be put in place; 0 without one."""
    kept = 0
    """The first frame that a restart needs: that of the newest snapshot in place; 0 without a snapshot."""
    why = ""
    """Why the disk makes the role unready; empty if it does not."""
    disowned = False
    """Whether `check` has set the loaded snapshot aside, so that the next start goes on without it."""
    _appended: dict[int, int] | None = None

    def note_frame(self, frame: int, appended_ms: int) -> None:
        """Note the first frame of a poll or batch, and when that frame came to the log, in ms since 1970."""
        if frame in (self.kept, self.wanted):
            earlier = self._appended or {}
            self._appended = {at: ms for at, ms in earlier.items() if at >= self.kept} | {frame: appended_ms}

    @property
    def needs_since_ms(self) -> int | None:
        """When the first frame that a restart needs came to the log, in ms since 1970; None before that frame."""
        return (self._appended or {}).get(self.kept)

    def load(self, published: Position | None, log_begins: int, beat: Beat = lambda: None) -> bool:
        """Load nothing. Raises WrongLog if the log's first frames are gone."""
        if log_begins:
            raise WrongLog(
                f"the log begins at frame {log_begins}, and no state reaches that far",
                "give the folder of this role's last state with --state, or choose another --prefix",
            )
        return False

    def check(self, place: LogPlace, published: Position) -> None:
        """Raise WrongLog unless the log leads to the published position; `place` is the state's at this frame, or
        behind it if the position has gone back."""
        if place.frame > published.frame:
            raise WrongLog(
                f"verdicts were published up to frame {place.frame}, but the position published now is frame "
                f"{published.frame}",
                f"start again: it goes on from a state at or behind frame {published.frame}, or says what it lacks "
                "(was the topic positions restored from an older copy?)",
            )
        if place != (published.frame, published.ordinal, published.digest):
            raise WrongLog(
                f"at frame {place.frame} the log has ordinal {place.ordinal} and digest {place.digest}, but the "
                f"position published is frame {published.frame}, ordinal {published.ordinal} and digest "
                f"{published.digest}",
                "restore the topic fingerprints, or choose another --prefix: the published verdicts come from "
                "another log",
            )

    def turn(self, frame: int, ordinal: int, published: int) -> None:
        """See SnapshotKeeper."""

    def finish(self, frame: int, ordinal: int, published: int) -> None:
        """See SnapshotKeeper."""

    def close(self) -> None:
        """See Closing."""


class SnapshotKeeper(NoSnapshots):
    """Takes and loads the snapshots of one state in one folder. For the thread of this state only."""

    reach = "verdicts are published up to frame"
    """What introduces the frame of `published` in errors."""

    def __init__(
        self,
        path: str,
        state: LogState,
        log_id: str,
        context: RoleContext,
        files: FileSystem | None = None,
        logger: logging.Logger = _logger,
    ) -> None:
        """Lock the folder. Raises StateLocked, StateDamaged, StateFormat, StateUnwritable."""
        self._folder = StateFolder(Path(path), files, mends=True)
        self._state = state
        self._log_id = log_id
        self._settings = context.settings
        self._logger = logger
        self._metrics = context.metrics
        self._prepared: PreparedSnapshot | None = None
        """The snapshot in work."""
        self._writing: Future[float] | None = None
        """Its write, in work or done; None after a failed one."""
        self._frame = self._ordinal = 0
        """The frame of the last snapshot that was prepared or loaded."""
        self._goes_back_to: int | None = None
        """The number of the newest snapshot of a state that was loaded; None for a state from the log alone."""
        self._log_begins = 0
        self._prepared_at = time.monotonic()
        self._rest_s = 0.0
        """Seconds after `_prepared_at` in which no snapshot is due."""
        self._placed_at: float | None = None
        """When this process last put a snapshot in place, by the monotonic clock; None if it has not."""
        self._failing_since: float | None = None
        self._try_at = 0.0
        self._metrics.watch_snapshots(self, self._age_s, self._folder.aside)
        self._rot: RotWatch | None = None

    def load(self, published: Position | None, log_begins: int, beat: Beat = lambda: None) -> bool:
        """Load the newest snapshot at or behind the published position; return False if there is no snapshot.

        `log_begins` is the first frame that the log still has. Calls `beat`, in any thread, as long as the disk
        gives bytes: a large state takes minutes. A damaged snapshot is set aside if another snapshot or the whole
        log can replace it; else it raises StateDamaged. A newer snapshot than the loaded one is set aside: the log
        may have lost its frames, and others take their place. Raises WrongLog, WrongRecipe, WrongPolicy,
        StateFormat and what `beat` raises, too.
        """
        end = published.frame if published else 0
        self._log_begins = log_begins
        began = time.monotonic()
        loaded = self._whole(end, log_begins, beat)
        if loaded is None:
            if not self._folder.snapshots:
                found = super().load(published, log_begins)
                self._logger.info("no state in %s: starting at the first frame of the log", self._folder.path)
                return found
            frames = " and ".join(str(each.manifest.facts["frame"]) for each in self._folder.snapshots)
            if published is None:
                raise WrongLog(
                    f"the state in {self._folder.path} is at frame {frames}, but the topic `positions` is empty",
                    "restore that topic, or publish under another prefix with `simstream replay --to`. If the "
                    "folder is another prefix's, give another one. Remove it only if no verdict was published",
                )
            raise WrongLog(
                f"the state in {self._folder.path} is at frame {frames}, {self.reach} {end}",
                (self._keep_it() if log_begins else "remove the folder: the log is then read again")
                + " (was a topic created anew, or restored from an older copy?). Give another folder if another "
                "process made it",
            )
        try:
            self._state.restore(loaded.parts, loaded.facts, self._log_id)
        except StateDamaged:
            if self._give_up(loaded.number):
                self._logger.error("the snapshot is kept aside in %s: start this process again", self._aside)
            raise
        except (WrongLog, WrongPolicy, WrongRecipe) as error:
            raise type(error)(f"cannot use the state in {self._folder.path}: {error.what}", error.todo) from None
        self._folder.suspect(False)
        self._state.read_from_disk(self._folder.files, loaded.sealed.values())
        self._frame, self._ordinal = loaded.facts["frame"], loaded.facts["ordinal"]
        self.kept = self._frame
        if self._frame < log_begins:
            raise WrongLog(
                f"the log begins at frame {log_begins}, the state in {self._folder.path} is at frame {self._frame}",
                "restore a later state or the frames between them, or choose another --prefix",
            )
        self._goes_back_to, self._folder.keeps_previous = loaded.number, True
        if ahead := [each for each in self._folder.snapshots if each.manifest.number > loaded.number]:
            with suppress(StateUnwritable):  # then the next snapshot replaces it
                self._folder.set_aside(ahead)
                frame = ahead[0].manifest.facts["frame"]
                why = f"{self.reach} {end}"
                self._logger.error("the snapshot of frame %d is kept aside in %s: %s", frame, self._aside, why)
        where = {"frame": self._frame, "ordinal": self._ordinal}
        seconds = time.monotonic() - began
        self._logger.info("state of frame %d, ordinal %d loaded in %.1f s", *where.values(), seconds, extra=where)
        return True

    def _whole(self, end: int, log_begins: int, beat: Beat) -> LoadedSnapshot | None:
        """Return the newest whole snapshot at or behind frame `end`, or None. Raises StateDamaged."""
        folder, trusted = self._folder, () if self._folder.suspected else PageStore.KINDS
        error = next(iter(folder.damaged.values()), None)
        bad: list[Snapshot] = []
        for snapshot in folder.snapshots:
            facts = snapshot.manifest.facts
            if not self._may_be(facts, end):
                continue
            if error is not None and facts["frame"] < log_begins:
                break
            try:
                loaded = folder.load_one(snapshot, trusted, lambda size: beat())
            except StateDamaged as found:
                error = error or found
                bad.append(snapshot)
                continue
            if error is not None:
                self._set_aside(bad, error, f"the state goes on from frame {facts['frame']}")
            return loaded
        if error is not None:
            if log_begins or len(bad) < len(folder.snapshots):
                raise error
            self._set_aside(bad, error, "the log is read again from its beginning")
        return None

    def _set_aside(self, bad: Sequence[Snapshot], error: StateDamaged, instead: str) -> None:
        self._folder.set_aside(bad)
        self._logger.error("%s; it is kept aside in %s, and %s", error.what, self._aside, instead)

    @property
    def _aside(self) -> Path:
        return self._folder.path / ASIDE

    def _keep_it(self) -> str:
        """Return what to do with a state that does not fit, if the log alone cannot replace it."""
        begins = f"keep the folder, as the log begins at frame {self._log_begins}"
        return f"{begins}: restore an older copy of the folder, or a newer one of the topics"

    def _give_up(self, number: int) -> bool:
        """Set a snapshot aside, if the next start can go on without it. Return whether it can."""
        bad = [each for each in self._folder.snapshots if each.manifest.number == number]
        older = [each.manifest.facts["frame"] for each in self._folder.snapshots if each not in bad]
        can_go_on = not self._log_begins or any(frame >= self._log_begins for frame in older)
        if can_go_on:
            self._folder.set_aside(bad)
        return can_go_on

    def check(self, place: LogPlace, published: Position) -> None:
        """See NoSnapshots. A snapshot that the state goes back to is set aside: the log may have lost its frames.

        Until the first check the previous snapshot stays, as it may be the last one of this log.
        """
        try:
            super().check(place, published)
        except WrongLog as error:
            if self._goes_back_to is None or place.frame != published.frame:
                raise
            self.disowned = self._give_up(self._goes_back_to)
            raise WrongLog(
                f"the state in {self._folder.path} does not belong to this log: {error.what}",
                f"start again: it goes on without this state, which is kept aside in {self._aside}. If the topic "
                "fingerprints alone has lost records, first copy this folder and restore that topic"
                if self.disowned
                else f"{self._keep_it()}; without them choose another --prefix",
            ) from None
        self._folder.keeps_previous = False

    def turn(self, frame: int, ordinal: int, published: int) -> None:
        """Begin a snapshot if one is due, or put a written one in place. Call it between two polls; it waits
        little.

        `frame` and `ordinal` are the place of the state; verdicts are committed up to the frame `published`. Raises
        StateUnwritable after `give_up_after`, and StateDamaged, also for a file that was damaged on the disk.
        """
        if self._rot is None:
            self._rot = RotWatch(self._folder.files, self._folder.path, self._in_use, self._metrics, self._logger)
        self._rot.check()
        if self._prepared is None:
            if self._is_due(frame, ordinal):
                self._prepare(frame, ordinal)
        elif time.monotonic() >= self._try_at:
            self._go_on(published)

    def finish(self, frame: int, ordinal: int, published: int) -> None:
        """At a clean stop put the snapshot in work in place, then take a last one if `published` allows it.

        Waits for the disk. A failed write raises no error, since the earlier snapshots are whole: it is logged.
        """
        self._finish_one(published)
        if self._prepared is None and self._frame < frame <= published:
            self._prepare(frame, ordinal)
            self._finish_one(published)
        if self._prepared is not None and self.why:
            self._logger.warning("could not take a last snapshot: %s", self.why)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close. After StateDamaged mark the folder, so that the next start verifies every byte."""
        if isinstance(error, StateDamaged):
            self._folder.suspect(True)
        self.close()

    def close(self) -> None:
        """See Closing. Waits for the current write, and unlocks the folder."""
        if self._rot is not None:
            self._rot.close()
        if self._writing is not None:
            wait([self._writing])
        self._metrics.forget_snapshots(self)
        self._folder.close()

    def _in_use(self) -> Sequence[ManifestFile]:
        """Return the files of the newest snapshot that stay mapped."""
        snapshots = self._folder.snapshots
        return snapshots[0].manifest.sealed if snapshots else ()

    def _may_be(self, facts: Mapping[str, Any], end: int) -> bool:
        """Whether a snapshot is at or behind frame `end`. `restore` refuses a snapshot of another log."""
        return facts["log_id"] != self._log_id or bool(facts["frame"] <= end)

    def _is_due(self, frame: int, ordinal: int) -> bool:
        """Whether to begin a snapshot. Never so soon that copies take more than a twentieth of the time."""
        since = time.monotonic() - self._prepared_at
        if frame <= self._frame or since < self._rest_s:
            return False
        settings = self._settings
        return since >= settings.snapshot_every_s or ordinal - self._ordinal >= settings.snapshot_pages

    def _prepare(self, frame: int, ordinal: int) -> None:
        began = time.perf_counter()
        state = self._state
        self._prepared = self._folder.prepare(state.parts(), state.facts(self._log_id), state.beat)
        took_s = time.perf_counter() - began
        self._metrics.batch.labels("snapshot").observe(took_s)
        self._frame, self._ordinal, self._prepared_at = frame, ordinal, time.monotonic()
        self._rest_s = took_s * SHARE
        self.wanted = frame
        self._writing = _begin_write(self._prepared)

    def _go_on(self, published: int) -> None:
        """Take the next step of the snapshot in work, if it is possible now."""
        assert self._prepared is not None
        if self._writing is None:
            self._writing = _begin_write(self._prepared)
        elif self._writing.done():
            error = self._writing.exception()
            if error is not None:
                self._writing = None
                self._failed(error)
            elif self._frame <= published:
                self._commit(self._prepared)
            else:  # the disk has taken it
                self.why, self._failing_since = "", None

    def _finish_one(self, published: int) -> None:
        """Take the snapshot in work as far as it goes without another try."""
        if self._prepared is not None:
            if self._writing is None:
                self._writing = _begin_write(self._prepared)
            wait([self._writing])
            self._go_on(published)

    def _commit(self, prepared: PreparedSnapshot) -> None:
        try:
            prepared.commit()
        except StateUnwritable as error:
            self._failed(error)
            return
        self._state.read_from_disk(self._folder.files, prepared.sealed)
        if self._goes_back_to is not None:
            self._goes_back_to = prepared.number
        if self._writing is not None:
            self._metrics.batch.labels("snapshot_write").observe(self._writing.result())
        self._prepared = self._writing = self._failing_since = None
        self._placed_at = time.monotonic()
        self.kept, self.wanted = self._frame, 0
        self.why, self._try_at = "", 0.0
        where = {"frame": self._frame, "ordinal": self._ordinal}
        place = self._folder.path
        self._logger.info("took a snapshot of frame %d, ordinal %d, in %s", *where.values(), place, extra=where)

    def _failed(self, error: BaseException) -> None:
        """Plan another try. Raise the error if no try can help, or if none has helped for `give_up_after`."""
        now = time.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if not isinstance(error, StateUnwritable) or now - self._failing_since > self._settings.give_up_s:
            raise error
        if not self.why:
            self._logger.warning("%s; trying again", error.what)
        self.why = f"cannot write a snapshot: {error.what}"
        self._try_at = now + RETRY_S

    def _age_s(self) -> float:
        """Return the seconds since the newest snapshot was put in place; NaN without one.

        Only the age of a snapshot from before this process depends on the wall clock, which may be set.
        """
        if self._placed_at is not None:
            return time.monotonic() - self._placed_at
        snapshots = self._folder.snapshots
        return max(0.0, time.time() - snapshots[0].modified_ns / 1e9) if snapshots else float("nan")


def _begin_write(prepared: PreparedSnapshot) -> Future[float]:
    """Write a snapshot in a thread that does not delay the end of the process. It returns its seconds."""

    def write() -> float:
        began = time.perf_counter()
        prepared.write()
        return time.perf_counter() - began

    return call_in_daemon(write, "snapshot")
