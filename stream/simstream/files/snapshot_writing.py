"""Writes a snapshot: copied in the judge's thread, written in another thread, then put in place."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from simstream.files import blocks, manifest, sealed
from simstream.files.failures import writing
from simstream.files.file_system import write_whole
from simstream.files.manifest import NEXT, Manifest, ManifestFile, to_manifest_file
from simstream.files.sealed import SealedFile
from simstream.files.snapshot_loading import SnapshotBase
from simstream.files.snapshot_part import Fact, SnapshotPart

if TYPE_CHECKING:
    from simstream.files.folder import StateFolder

SUFFIX: Final = ".sealed"
PARTIAL: Final = ".part"
PART_NAME: Final = re.compile(r"(?!blocks-)[A-Za-z0-9][A-Za-z0-9._-]{0,59}")


class PreparedSnapshot:
    """Made by `StateFolder.prepare`: call `write`, then `commit`. After a failure call the same one again.

    Once written it holds no arrays. `write` may run in any thread, one at a time. `commit` runs in the thread that
    prepares, or while that thread waits.
    """

    def __init__(
        self,
        folder: StateFolder,
        base: SnapshotBase,
        number: int,
        parts: Sequence[SnapshotPart],
        facts: Mapping[str, Fact],
        beat: Callable[[], None],
    ) -> None:
        self.number = number
        self.sealed: tuple[SealedFile, ...] = ()
        """The files of immutable parts that `write` has made; the arrays can be read from them now."""
        self.void = False
        self._folder = folder
        self._base = base
        self._facts = dict(facts)
        immutable = [part for part in parts if not part.changes]
        self._names = [part.name for part in immutable]
        self._new = [part for part in immutable if part.name not in base.sealed]
        changing = [part for part in parts if part.changes]
        sizes = {number: each.content for number, each in base.blocks.items()}
        self._cut = blocks.cut(changing, number, base.tables, sizes, beat)
        self._changing = tuple(blocks.describe_part(part, self._cut.tables) for part in changing)
        self.changed_bytes = self._cut.content.nbytes
        """The blocks of the changing parts that go to the disk."""
        self._own: ManifestFile | None = None
        self._written = False
        self._placed = False

    def write(self) -> None:
        """Write new immutable parts and changed blocks, and wait for the disk.

        Raises StateFull, StateUnwritable, and StateDamaged if moving blocks cannot be read; a further call goes on.
        Holds Python's lock for at most .13 ms at a time.
        """
        self._check()
        if self._written:
            return
        new = [self._write(part) for part in self._new]
        own = self._write_blocks()
        with writing(self._folder.path):
            self._folder.files.sync_folder(self._folder.path)
        self._own = own
        self.sealed = tuple(new)
        self._base.sealed.update((each.name, to_manifest_file(each)) for each in new)
        self._written = True
        self._new.clear()
        self._cut = self._cut._replace(content=self._cut.content[:0].copy())

    def commit(self) -> None:
        """Put the manifest in place: afterwards the snapshot survives a power cut.

        Removes the files that neither this snapshot nor the one before needs. Raises StateFull and StateUnwritable;
        then the earlier snapshots are as they were, and you can call it again.
        """
        self._check()
        if not self._written:
            raise ValueError("call write before commit")
        needed = self._cut.files()
        files = {**self._base.blocks, **({self.number: self._own} if self._own else {})}
        found = Manifest(
            self.number,
            self._facts,
            tuple(self._base.sealed[name] for name in self._names),
            self._changing,
            tuple(files[number] for number in sorted(needed)),
        )
        path = self._folder.path / NEXT
        with writing(path):
            write_whole(self._folder.files, path, manifest.encode(found))
        with writing(self._folder.path):
            self._folder.place(path, again=self._placed)
            self._placed = True
            self._folder.files.sync_folder(self._folder.path)
        self.void = True
        immutable = {each.part: each for each in found.sealed}
        self._folder.note_commit(
            SnapshotBase(immutable, {number: files[number] for number in needed}, self._cut.tables)
        )

    def _check(self) -> None:
        if self.void:
            raise ValueError("the snapshot is committed, or another one was prepared since")

    def _write(self, part: SnapshotPart) -> SealedFile:
        """Write one sealed file under its name. The name does not survive a power cut yet."""
        files = self._folder.files
        path = self._folder.path / f"{part.name}.{self.number}{SUFFIX}"
        partial = path.with_name(path.name + PARTIAL)
        try:
            with writing(path):
                done = sealed.write(files, partial, part)
                files.rename(partial, path)
        except BaseException:
            with contextlib.suppress(OSError):
                files.unlink(partial)
            raise
        return done._replace(path=path)

    def _write_blocks(self) -> ManifestFile | None:
        if not self._cut.content.nbytes:
            return None
        folder = self._folder
        blocks.bring(folder.files, self._cut, {n: folder.path / each.file for n, each in self._base.blocks.items()})
        return to_manifest_file(self._write(blocks.as_part(self._cut, self.number)))
