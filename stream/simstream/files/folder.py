"""Keeps a state folder: its lock, its two snapshots, and the next snapshot.

```
 judge's thread        another thread                          judge's thread
 prepare ────────────► write ────────────────────────────────► commit
 compare blocks,       new immutable parts, changed blocks:    manifest.next, fsync, three renames,
 copy changed ones     x.part, fsync, rename; sync the folder  sync the folder; unlink what neither names
``` The snapshot exists only after the last rename. A failure before leaves the earlier snapshots as they are.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from simstream.closing import Closing
from simstream.errors import StateDamaged, StateError, StateLocked, StateUnwritable
from simstream.files import manifest, sealed
from simstream.files.failures import writing
from simstream.files.file_system import FileSystem, process_name, unlock
from simstream.files.manifest import IN_ORDER, NEWEST, OLDEST, PREVIOUS, Snapshot
from simstream.files.names import ASIDE, LOCK, SEALED, SUSPECT, check_own, is_of_snapshot
from simstream.files.sealed import Pace
from simstream.files.snapshot_loading import LoadedSnapshot as LoadedSnapshot
from simstream.files.snapshot_loading import SnapshotBase, load
from simstream.files.snapshot_part import Fact, SnapshotPart
from simstream.files.snapshot_writing import PART_NAME, PreparedSnapshot


class StateFolder(Closing):
    """A folder of state that one process holds."""

    def __init__(self, path: Path, files: FileSystem | None = None, *, mends: bool = False) -> None:
        """Make or open the folder, and remove the files that a crash has left.

        With `mends` it lists damaged manifests in `damaged`, and removes nothing before `set_aside`. Raises
        StateLocked, StateUnwritable, and UsageError for a folder with other files. If a manifest cannot be read, it
        raises StateDamaged or StateFormat, and removes nothing.
        """
        self.path = Path(path)
        self.files = files or FileSystem()
        """The way to the disk."""
        lock = _locked(self.files, self.path)
        self._unlock = weakref.finalize(self, _release, self.files, lock, os.getpid())
        self._unlock.atexit = False  # the lock ends with the process
        try:
            self.snapshots, self.damaged = self._read(mends)
            """The snapshots, the newest first, at most two; and each damaged manifest with its error."""
            if not self.damaged:
                with writing(self.path):
                    self._settle_names()
                self._clean()
        except BaseException:
            self.close()
            raise
        self._number = max((snapshot.manifest.number for snapshot in self.snapshots), default=0)
        self._base = SnapshotBase({}, {}, {})
        self._loaded: int | None = None
        """The number of the snapshot that the next snapshot is based on."""
        self.keeps_previous = False
        """Whether the next snapshots replace the newest one, so that the previous one stays."""
        self._last: PreparedSnapshot | None = None

    def close(self) -> None:
        """Unlock the folder for other processes; may be called again. A folder that is dropped unlocks itself."""
        self._unlock()

    def load(self, trusted: Collection[str] = ()) -> LoadedSnapshot | None:
        """Read back the newest snapshot, or return None; `snapshots` has them all.

        It verifies every byte, except in immutable parts of the `trusted` kinds: here only header and footer, as
        their readers verify the rest. The next snapshot is based on this one. Raises StateDamaged, StateFormat and
        StateUnwritable.
        """
        return self.load_one(self.snapshots[0], trusted) if self.snapshots else None

    def load_one(
        self, snapshot: Snapshot, trusted: Collection[str] = (), pace: Pace = sealed.at_once
    ) -> LoadedSnapshot:
        """Do what `load` does with one of `snapshots`. The next snapshot replaces every newer one.

        Calls `pace` after each verified piece, in any thread.
        """
        loaded, self._base = load(self.files, snapshot, trusted, pace)
        self._loaded = snapshot.manifest.number
        return loaded

    def set_aside(self, bad: Collection[Snapshot]) -> None:
        """Move these snapshots and the damaged manifests to the folder `damaged`, with all files that no other
        snapshot names.

        Removes the files of earlier snapshots there; other files stay. Raises StateUnwritable.
        """
        files, aside = self.files, self.path / ASIDE
        kept = [each for each in self.snapshots if each not in bad]
        named = {file.file for each in kept for file in each.manifest.files()}
        with writing(aside):
            files.make_folder(aside)
            for name in filter(is_of_snapshot, files.listdir(aside)):
                files.unlink(aside / name)
            for path in (*self.damaged, *(each.path for each in bad)):
                files.rename(path, aside / path.name)
            for name in files.listdir(self.path):
                if SEALED.fullmatch(name) and name not in named:
                    files.rename(self.path / name, aside / name)
            self._settle_names()
            files.sync_folder(aside)
            files.sync_folder(self.path)
        self.snapshots, self.damaged = self._read(mends=False)

    def aside(self) -> int:
        """Return how many files of snapshots lie in the folder `damaged`."""
        try:
            return sum(map(is_of_snapshot, self.files.listdir(self.path / ASIDE)))
        except OSError:
            return 0

    @property
    def suspected(self) -> bool:
        """Return whether a file of the state was found damaged in use. Raises StateUnwritable."""
        with writing(self.path):
            return SUSPECT in self.files.listdir(self.path)

    def suspect(self, suspected: bool) -> None:
        """Note that a file was found damaged in use, or that all files are verified.

        If the disk does not take the note, it changes nothing.
        """
        with contextlib.suppress(OSError):
            if suspected:
                self.files.close(self.files.create(self.path / SUSPECT))
            else:
                self.files.unlink(self.path / SUSPECT)
            self.files.sync_folder(self.path)

    def prepare(
        self, parts: Sequence[SnapshotPart], facts: Mapping[str, Fact], beat: Callable[[], None] = lambda: None
    ) -> PreparedSnapshot:
        """Return a snapshot of the parts as they are now, which another thread can write.

        An earlier snapshot that was prepared and not committed becomes void. A part's name has at most 60 letters,
        digits, `-`, `_` and `.`. An immutable part is the same one if its name was written or loaded before. Calls
        `beat` between the steps of a long copy. Raises ValueError for wrong names.

        Cost: .2 ms a MB of changing parts (250 MB in 50 ms), and .1 ms a MB of changed blocks, which it copies
        until `write` is done. The copy takes several ms a MB if the system has to find free memory first.
        """
        names = [part.name for part in parts]
        if len(set(names)) < len(names) or not all(PART_NAME.fullmatch(name) for name in names):
            raise ValueError(f"parts need names of their own, which files can have: {names}")
        if self._last is not None:
            self._last.void = True
        self._number += 1
        self._last = PreparedSnapshot(self, self._base, self._number, parts, facts, beat)
        return self._last

    def place(self, path: Path, again: bool) -> None:
        """Make the file at `path` the newest manifest, and the newest one the previous; for `PreparedSnapshot`.

        If this process passed the newest one over, or `keeps_previous`, it is dropped instead. `again` repeats the
        last rename only. Raises OSError.
        """
        files, newest, previous = self.files, self.path / NEWEST, self.path / PREVIOUS
        if not again:
            names = files.listdir(self.path)
            passed_over = self._loaded is not None and self._loaded != self.snapshots[0].manifest.number
            dropped = passed_over or (self.keeps_previous and PREVIOUS in names)
            if NEWEST in names and not dropped:
                if PREVIOUS in names:
                    files.rename(previous, self.path / OLDEST)
                files.rename(newest, previous)
        files.rename(path, newest)
        self._loaded = None

    def note_commit(self, base: SnapshotBase) -> None:
        """Note that a manifest is the newest one now, and base the next snapshot on it; for `PreparedSnapshot`."""
        self._base = base
        self._last = None
        with contextlib.suppress(StateError, OSError):  # the next commit removes what cannot be removed now
            self.snapshots = manifest.read_all(self.files, self.path)
            self._settle_names()
            self._clean()

    def _read(self, mends: bool) -> tuple[tuple[Snapshot, ...], dict[Path, StateDamaged]]:
        if mends:
            return manifest.read_each(self.files, self.path)
        return manifest.read_all(self.files, self.path), {}

    def _settle_names(self) -> None:
        """Give manifests their usual names after a crash between two renames. Raises OSError."""
        files, newest, previous, oldest = self.files, *(self.path / name for name in IN_ORDER)
        names = set(files.listdir(self.path))
        if NEWEST not in names and PREVIOUS in names:
            files.rename(previous, newest)
            names.remove(PREVIOUS)
        if OLDEST in names and PREVIOUS in names:
            files.unlink(oldest)
        elif OLDEST in names:
            files.rename(oldest, previous)

    def _clean(self) -> None:
        """Remove the state's files that no snapshot names."""
        kept = {named.file for snapshot in self.snapshots for named in snapshot.manifest.files()}
        with contextlib.suppress(OSError):
            for name in self.files.listdir(self.path):
                if SEALED.fullmatch(name) and name not in kept:
                    with contextlib.suppress(OSError):
                        self.files.unlink(self.path / name)


def _locked(files: FileSystem, path: Path) -> int:
    """Make the folder and lock it. Raises StateLocked, StateUnwritable."""
    try:
        with writing(path):
            files.make_folder(path)
            check_own(path, files.listdir(path))
        with writing(path / LOCK):
            return files.lock(path / LOCK)
    except StateUnwritable as error:
        if isinstance(error.__cause__, BlockingIOError):
            holder, own = str(error.__cause__.filename), process_name()
            step = "close this program's other Deduper" if holder == own else "stop it"
            host, _, pid = holder.rpartition(":")
            where = f" on {host}" if host not in ("", own.rpartition(":")[0]) else ""
            raise StateLocked(
                f"process {pid}{where} already uses the state in {path}", f"{step} first, or use another folder"
            ) from None
        raise


def _release(files: FileSystem, lock: int, holder: int) -> None:
    """Release the lock that the process `holder` has taken."""
    unlock(lock, holder)
    with contextlib.suppress(OSError):  # the lock is released all the same
        files.close(lock)
