"""Cuts the changing parts of a snapshot into blocks of 256 KiB.

Only blocks whose checksum differs from the last snapshot's are copied and written. The changed blocks of all parts
of a snapshot make one sealed file, `blocks-N`.

A table has for each block of an array its file, its place, its length and its checksum. If less than half of a file
is still in use, its living blocks move to the new file. So a snapshot's block files are at most twice the size of
their blocks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.closing import Closing
from simstream.files import checksum, dtypes, sealed
from simstream.files.failures import damaged, reading
from simstream.files.file_system import FileSystem
from simstream.files.manifest import ChangingArray, ChangingPart
from simstream.files.sealed import Pace
from simstream.files.snapshot_part import SnapshotPart

BLOCK_BYTES: Final = 256 << 10
"""Bytes of a block: 32 us to compare, and a row of 36 bytes."""
BEAT_BLOCKS: Final = 64
"""Blocks between two beats: they take 2 ms to compare, and at most some 100 ms to copy."""
ROW: Final = np.dtype([("file", "<u8"), ("offset", "<u8"), ("length", "<u4"), ("digest", "V16")])
"""A block: the number of the snapshot that wrote its file, its place in that file's array, its length, its
checksum."""
Table = NDArray[Any]
"""Rows of `ROW`, in the order of the array's bytes."""
Tables = Mapping[tuple[str, str], Table]
"""Tables by the names of part and array."""
KIND: Final = "blocks"
_CONTENT: Final = "content"


class BlockMove(NamedTuple):
    """A living block that leaves its file, and its new place."""

    file: int
    offset: int
    length: int
    digest: bytes
    to: int


class BlockCut(NamedTuple):
    """A snapshot's changing parts, and the blocks that go into its block file.

    `content` holds the changed blocks, and has room for the blocks that `bring` moves in another thread.
    """

    tables: Tables
    content: NDArray[np.uint8]
    moves: tuple[BlockMove, ...]

    def files(self) -> set[int]:
        """Return the numbers of the needed block files, with this snapshot's own if it has blocks."""
        return {int(number) for table in self.tables.values() for number in np.unique(table["file"])}


def cut(
    parts: Sequence[SnapshotPart],
    number: int,
    last: Tables,
    sizes: Mapping[int, int],
    beat: Callable[[], None] = lambda: None,
) -> BlockCut:
    """Compare the parts with the last snapshot's blocks, and copy the changed ones.

    `number` is the new snapshot's number; `sizes` has the bytes of blocks that each earlier file was written with.
    Calls `beat` for each array, and every BEAT_BLOCKS blocks. Cost: 8 GB/s to compare, 2 to 4 GB/s to copy.
    """
    changed: list[memoryview] = []
    tables: dict[tuple[str, str], Table] = {}
    at = 0
    for part in parts:
        for name, array in part.arrays.items():
            data = sealed.as_bytes(array)
            old = last.get((part.name, name), np.zeros(0, ROW)).tolist()
            rows = []
            for i, start in enumerate(range(0, len(data), BLOCK_BYTES)):
                if i % BEAT_BLOCKS == 0:
                    beat()
                block = data[start : start + BLOCK_BYTES]
                digest = checksum.of_block(block)
                if i < len(old) and old[i][2:] == (len(block), digest):
                    rows.append(old[i])
                else:
                    rows.append((number, at, len(block), digest))
                    changed.append(block)
                    at += len(block)
            tables[part.name, name] = np.array(rows, ROW)
    moves = _give_up(tables, number, at, sizes)
    content = np.empty(at + sum(move.length for move in moves), np.uint8)
    start = 0
    for i, block in enumerate(changed):
        if i % BEAT_BLOCKS == 0:
            beat()
        content[start : start + len(block)] = block
        start += len(block)
    return BlockCut(tables, content, moves)


def _give_up(tables: Tables, number: int, at: int, sizes: Mapping[int, int]) -> tuple[BlockMove, ...]:
    """Let rows of mostly superseded files point to the new file, from `at` on."""
    living: dict[int, int] = {}
    for table in tables.values():
        for file in np.unique(table["file"]).tolist():
            living[file] = living.get(file, 0) + int(table["length"][table["file"] == file].sum())
    given_up = [file for file, length in living.items() if file != number and 2 * length < sizes[file]]
    moves = []
    for table in tables.values():
        for place in np.flatnonzero(np.isin(table["file"], given_up)).tolist():
            file, offset, length, digest = table[place].tolist()
            moves.append(BlockMove(file, offset, length, digest, at))
            table[place] = (number, at, length, digest)
            at += length
    return tuple(moves)


def bring(files: FileSystem, cut: BlockCut, paths: Mapping[int, Path]) -> None:
    """Read the moving blocks into `cut.content`. Raises StateDamaged."""
    content = cut.content.data
    with _BlockFiles(files, paths) as opened:
        for move in cut.moves:
            opened.read(move.file, move.offset, move.digest, content[move.to : move.to + move.length])


def as_part(cut: BlockCut, number: int) -> SnapshotPart:
    """Return the content of a snapshot's block file as a part."""
    return SnapshotPart(f"{KIND}-{number}", KIND, {}, {_CONTENT: cut.content})


def number_of(part: str) -> int:
    """Return the number of the snapshot that wrote the block file with this part; -1 for any other name."""
    number = part.removeprefix(f"{KIND}-")
    return int(number) if number.isdecimal() and number.isascii() else -1


def describe_part(part: SnapshotPart, tables: Tables) -> ChangingPart:
    """Return the part as the manifest names it."""
    arrays = tuple(
        ChangingArray(name, dtypes.spell(array.dtype), array.shape, tables[part.name, name].tobytes())
        for name, array in part.arrays.items()
    )
    return ChangingPart(part.name, part.kind, dict(part.facts), arrays)


def tables_of(
    manifest: Path, parts: Sequence[ChangingPart], known: Collection[int]
) -> dict[tuple[str, str], Table]:
    """Return a manifest's tables; their blocks lie in the files with these numbers. Raises StateDamaged."""
    tables = {}
    for part in parts:
        for array in part.arrays:
            if len(array.table) % ROW.itemsize:
                raise damaged(manifest, f"the blocks of {part.name} are not a whole table")
            table = np.frombuffer(array.table, ROW)
            if not set(table["file"].tolist()) <= set(known):
                raise damaged(manifest, f"blocks of {part.name} lie in files that it does not name")
            tables[part.name, array.name] = table
    return tables


def gather(
    files: FileSystem,
    manifest: Path,
    parts: Sequence[ChangingPart],
    tables: Tables,
    paths: Mapping[int, Path],
    pace: Pace = sealed.at_once,
) -> list[SnapshotPart]:
    """Read the parts back into memory of their own, and verify every block. Calls `pace` after each one.

    Raises StateDamaged and StateFormat. Cost: 3 GB/s from the system's cache.
    """
    found = []
    with _BlockFiles(files, paths) as opened:
        for part in parts:
            arrays = {}
            for array in part.arrays:
                table = tables[part.name, array.name]
                data = np.empty(int(table["length"].sum()), np.uint8)
                at = 0
                for file, offset, length, digest in table.tolist():
                    opened.read(file, offset, digest, data.data[at : at + length])
                    pace(length)
                    at += length
                try:
                    arrays[array.name] = data.view(dtypes.read(array.dtype)).reshape(array.shape)
                except ValueError as error:
                    raise damaged(manifest, f"the blocks of {part.name} do not make its array: {error}") from error
            found.append(SnapshotPart(part.name, part.kind, part.facts, arrays, changes=True))
    return found


class _BlockFiles(Closing):
    """Block files; each opens at its first read."""

    def __init__(self, files: FileSystem, paths: Mapping[int, Path]) -> None:
        self._files = files
        self._paths = paths
        self._open: dict[int, tuple[int, int]] = {}

    def read(self, file: int, offset: int, digest: bytes, target: memoryview) -> None:
        """Read and verify one block into `target`. Raises StateDamaged and StateFormat."""
        path = self._paths[file]
        if file not in self._open:
            extent = sealed.describe(path, self._files).layout.get(_CONTENT)
            if extent is None:
                raise damaged(path, "it is not a file of blocks")
            with reading(path):
                self._open[file] = (self._files.open(path), extent.offset)
        descriptor, start = self._open[file]
        with reading(path):
            count = self._files.pread_into(descriptor, target, start + offset)
        if count < len(target) or checksum.of_block(target) != digest:
            raise damaged(path, f"the checksum of its block at byte {start + offset} is wrong")

    def close(self) -> None:
        for descriptor, _ in self._open.values():
            with contextlib.suppress(OSError):  # what was read is verified
                self._files.close(descriptor)
        self._open.clear()
