"""Takes snapshots of the judge's state while it works, and loads one at a start.

    judge's thread    turn: prepare ───────────────┐            turn: commit, once its frame is published
    its own thread                     write ──────┴─ waits ──┘

A snapshot is taken between two polls, written while the judge goes on, and put in place only when the verdicts up
to it are committed: so none is ahead of what is published, as long as the log keeps what it committed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from simstream.closing import Closing
from simstream.errors import StateDamaged, StateUnwritable, WrongLog
from simstream.files.file_system import FileSystem
from simstream.files.folder import LoadedSnapshot, StateFolder
from simstream.files.manifest import ManifestFile, Snapshot
from simstream.files.names import ASIDE
from simstream.files.sealed import SealedFile
from simstream.files.snapshot_part import Fact, SnapshotPart
from simstream.files.snapshot_writing import PreparedSnapshot
from simstream.judge.pages.store import PageStore
from simstream.roles.context import RoleContext
from simstream.roles.judge.bit_rot import RotWatch
from simstream.wire.position import Position

RETRY_S = 2.0
"""Seconds between two tries to write what the disk did not take."""
_log = logging.getLogger("simstream.judge")


class SnapshotSource(Protocol):
    """What the keeper needs of a judge's state (`judge/state`)."""

    def parts(self) -> list[SnapshotPart]: ...

    def facts(self, log_id: str) -> dict[str, Fact]: ...

    def restore(self, parts: Sequence[SnapshotPart], facts: Mapping[str, Any], log_id: str) -> None: ...

    def on_disk(self, files: FileSystem, found: Iterable[SealedFile]) -> None: ...


class NoSnapshots(Closing):
    """What stands in for a keeper where the state is in memory alone: every restart judges the whole log again."""

    _appended: dict[int, int] | None = None

    def saw(self, frame: int, appended_ms: int) -> None:
        """The first frame that a poll brought, and when it came to the log."""
        if frame in (self.kept, self.wanted):
            earlier = self._appended or {}
            self._appended = {at: ms for at, ms in earlier.items() if at >= self.kept} | {frame: appended_ms}

    @property
    def needs_since_ms(self) -> int | None:
        """When the first frame that a restart would need came to the log; None where none has come yet."""
        return (self._appended or {}).get(self.kept)

    def load(self, published: Position | None, log_begins: int) -> bool:
        """Nothing is there to be loaded. Raises WrongLog where the log's first frames are gone."""
        if log_begins:
            raise WrongLog(
                f"the log begins at frame {log_begins}, and there is no state that goes on from there",
                "give the folder of the last judge's state (--state), or choose another --prefix",
            )
        return False

    def turn(self, frame: int, ordinal: int, published: int) -> None:
        """See SnapshotKeeper."""

    def finish(self, frame: int, ordinal: int, published: int) -> None:
        """See SnapshotKeeper."""

    @property
    def wanted(self) -> int:
        """See SnapshotKeeper."""
        return 0

    @property
    def kept(self) -> int:
        """See SnapshotKeeper: without a snapshot a restart needs all frames."""
        return 0

    @property
    def why(self) -> str:
        """See SnapshotKeeper."""
        return ""

    def close(self) -> None:
        """See Closing."""


class SnapshotKeeper(NoSnapshots):
    """Keeps one judge's state in one folder. All methods are for the judge's thread."""

    def __init__(
        self, path: str, state: SnapshotSource, log_id: str, context: RoleContext, files: FileSystem | None = None
    ) -> None:
        """Lock the folder. Raises StateLocked, StateDamaged, StateFormat, StateUnwritable."""
        self._folder = StateFolder(Path(path), files, mends=True)
        self._state = state
        self._log_id = log_id
        self._settings = context.settings
        self._metrics = context.metrics
        self._prepared: PreparedSnapshot | None = None
        """The snapshot under way."""
        self._writing: _SnapshotWrite | None = None
        """Its write, under way or done; None after one that failed."""
        self._frame = self._ordinal = 0
        """Where the last snapshot was prepared or loaded."""
        self._kept = 0
        self._prepared_at = time.monotonic()
        self._failing_since: float | None = None
        self._try_at = 0.0
        self._why = ""
        self._metrics.snapshot_age.set_function(self._age_s)
        self._metrics.state_damaged.set_function(self._folder.aside)
        self._rot: RotWatch | None = None

    def load(self, published: Position | None, log_begins: int) -> bool:
        """Load the newest snapshot at or behind the published position; return False if there is no snapshot.

        `log_begins` is the first frame that the log still has. A damaged snapshot is set aside if the state can go
        on from another snapshot, or from the beginning of the log. Raises WrongLog, WrongRecipe, WrongPolicy,
        StateFormat, and StateDamaged where the state cannot go on.
        """
        end = published.frame if published else 0
        began = time.monotonic()
        loaded = self._whole(end, log_begins)
        if loaded is None:
            if not self._folder.snapshots:
                return super().load(published, log_begins)
            frames = " and ".join(str(each.manifest.facts["frame"]) for each in self._folder.snapshots)
            raise WrongLog(
                f"the state in {self._folder.path} is at frame {frames}, verdicts are published up to frame {end}",
                "was the log put back to an earlier time? remove the folder, and the log is judged again",
            )
        try:
            self._state.restore(loaded.parts, loaded.facts, self._log_id)
        except StateDamaged:
            self._give_up(loaded.number, log_begins)
            raise
        self._folder.suspect(False)
        self._state.on_disk(self._folder.files, loaded.sealed.values())
        self._frame, self._ordinal = loaded.facts["frame"], loaded.facts["ordinal"]
        self._kept = self._frame
        if self._frame < log_begins:
            raise WrongLog(
                f"the log begins at frame {log_begins}, the state in {self._folder.path} is at frame {self._frame}",
                "bring a later state, or the frames between them; else choose another --prefix",
            )
        where = {"frame": self._frame, "ordinal": self._ordinal}
        seconds = time.monotonic() - began
        _log.info("state of frame %d, ordinal %d loaded in %.1f s", *where.values(), seconds, extra=where)
        return True

    def _whole(self, end: int, log_begins: int) -> LoadedSnapshot | None:
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
                loaded = folder.load_one(snapshot, trusted)
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
            self._set_aside(bad, error, "the log is judged again from its beginning")
        return None

    def _set_aside(self, bad: Sequence[Snapshot], error: StateDamaged, instead: str) -> None:
        self._folder.set_aside(bad)
        _log.error("%s; it is kept aside in %s, and %s", error.what, self._folder.path / ASIDE, instead)

    def _give_up(self, number: int, log_begins: int) -> None:
        """Set aside a snapshot whose parts do not agree, if the next start can go on without it."""
        bad = [each for each in self._folder.snapshots if each.manifest.number == number]
        older = [each.manifest.facts["frame"] for each in self._folder.snapshots if each not in bad]
        if not log_begins or any(frame >= log_begins for frame in older):
            self._folder.set_aside(bad)
            _log.error("the snapshot is kept aside in %s: start again", self._folder.path / ASIDE)

    def turn(self, frame: int, ordinal: int, published: int) -> None:
        """Begin a snapshot if one is due, or put a written one in place. Called between two polls; waits little.

        `frame` and `ordinal` say where the state stands, `published` is the frame up to which verdicts are
        committed. Raises StateUnwritable after `give_up_after`, and StateDamaged, also for a file that has rotted.
        """
        if self._rot is None:
            self._rot = RotWatch(self._folder.files, self._folder.path, self._in_use, self._metrics)
        self._rot.check()
        if self._prepared is None:
            if self._is_due(frame, ordinal):
                self._prepare(frame, ordinal)
        elif time.monotonic() >= self._try_at:
            self._go_on(published)

    def finish(self, frame: int, ordinal: int, published: int) -> None:
        """At a clean stop: put in place what is under way, then a last snapshot, where `published` admits it.

        Waits for the disk. What it does not take is said, and no error: the snapshots before are whole."""
        self._finish_one(published)
        if self._prepared is None and self._frame < frame <= published:
            self._prepare(frame, ordinal)
            self._finish_one(published)
        if self._prepared is not None and self._why:
            _log.warning("no snapshot at the end: %s", self._why)

    @property
    def wanted(self) -> int:
        """The frame that has to be published before the snapshot under way can be put in place; 0 for none."""
        return self._frame if self._prepared is not None else 0

    @property
    def kept(self) -> int:
        """The first frame that a restart would need: that of the newest snapshot in place, 0 for none."""
        return self._kept

    @property
    def why(self) -> str:
        """Why the judge is not ready, as far as the disk is concerned; empty where it is."""
        return self._why

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close. After StateDamaged the next start verifies every byte."""
        if isinstance(error, StateDamaged):
            self._folder.suspect(True)
        self.close()

    def close(self) -> None:
        """See Closing: waits for what is being written, and lets the folder go."""
        if self._rot is not None:
            self._rot.close()
        if self._writing is not None:
            self._writing.wait()
        self._folder.close()

    def _in_use(self) -> Sequence[ManifestFile]:
        """Return the files of the newest snapshot that stay mapped."""
        snapshots = self._folder.snapshots
        return snapshots[0].manifest.sealed if snapshots else ()

    def _may_be(self, facts: Mapping[str, Any], end: int) -> bool:
        """Whether a snapshot is not ahead of frame `end`; one of another log is for `restore` to refuse."""
        return facts["log_id"] != self._log_id or bool(facts["frame"] <= end)

    def _is_due(self, frame: int, ordinal: int) -> bool:
        late = time.monotonic() - self._prepared_at >= self._settings.snapshot_every_s
        return frame > self._frame and (late or ordinal - self._ordinal >= self._settings.snapshot_pages)

    def _prepare(self, frame: int, ordinal: int) -> None:
        began = time.perf_counter()
        self._prepared = self._folder.prepare(self._state.parts(), self._state.facts(self._log_id))
        self._metrics.batch.labels("snapshot").observe(time.perf_counter() - began)
        self._frame, self._ordinal, self._prepared_at = frame, ordinal, time.monotonic()
        self._writing = _SnapshotWrite(self._prepared)

    def _go_on(self, published: int) -> None:
        """The next step of the snapshot under way, if it may be taken now."""
        assert self._prepared is not None
        if self._writing is None:
            self._writing = _SnapshotWrite(self._prepared)
        elif self._writing.done:
            error = self._writing.error
            if error is not None:
                self._writing = None
                self._failed(error)
            elif self._frame <= published:
                self._commit(self._prepared)

    def _finish_one(self, published: int) -> None:
        """Take the snapshot under way as far as it goes without another try."""
        if self._prepared is not None:
            if self._writing is None:
                self._writing = _SnapshotWrite(self._prepared)
            self._writing.wait()
            self._go_on(published)

    def _commit(self, prepared: PreparedSnapshot) -> None:
        try:
            prepared.commit()
        except StateUnwritable as error:
            self._failed(error)
            return
        self._state.on_disk(self._folder.files, prepared.sealed)
        if self._writing is not None:
            self._metrics.batch.labels("snapshot_write").observe(self._writing.seconds)
        self._prepared = self._writing = self._failing_since = None
        self._kept = self._frame
        self._why, self._try_at = "", 0.0
        where = {"frame": self._frame, "ordinal": self._ordinal}
        _log.info("snapshot of frame %d, ordinal %d", *where.values(), extra=where)

    def _failed(self, error: BaseException) -> None:
        """Try again later; raise what trying does not mend, or has not mended for `give_up_after`."""
        now = time.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if not isinstance(error, StateUnwritable) or now - self._failing_since > self._settings.give_up_s:
            raise error
        if not self._why:
            _log.warning("%s; trying again", error.what)
        self._why = f"no snapshot can be written: {error.what}"
        self._try_at = now + RETRY_S

    def _age_s(self) -> float:
        """Seconds since the newest snapshot was put in place; not a number where there is none."""
        snapshots = self._folder.snapshots
        return max(0.0, time.time() - snapshots[0].modified_ns / 1e9) if snapshots else float("nan")


class _SnapshotWrite:
    """One write in a thread of its own, which does not hold up the process's end."""

    def __init__(self, prepared: PreparedSnapshot) -> None:
        self.prepared = prepared
        self.error: BaseException | None = None
        self.seconds = 0.0
        """How long it took."""
        self._thread = threading.Thread(target=self._run, name="snapshot", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Until it has ended."""
        self._thread.join()

    def _run(self) -> None:
        began = time.perf_counter()
        try:
            self.prepared.write()
            self.seconds = time.perf_counter() - began
        except BaseException as error:  # noqa: BLE001  # raised again in the judge's thread
            self.error = error
