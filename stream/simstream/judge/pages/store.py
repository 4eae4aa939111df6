"""Appends, reads, amends and removes records by number: the page store's public class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.files.file_system import FileSystem
from simstream.files.sealed import SealedFile
from simstream.files.snapshot_part import SnapshotPart
from simstream.judge.numbers import Age, RecordNumber, Row
from simstream.judge.pages import compaction as page_compaction
from simstream.judge.pages import due_times as page_due
from simstream.judge.pages import snapshot as page_snapshot
from simstream.judge.pages.chunk import SEALED, SealedChunk, damaged_store
from simstream.judge.pages.chunk_source import FileChunk, OpenFiles, SpillFile
from simstream.judge.pages.chunks import MAX_SLOTS, ChunkList
from simstream.judge.pages.compaction import IsLive, RecordMoves
from simstream.judge.pages.open_chunk import OpenChunk
from simstream.judge.pages.record import PageRecord, RecordLayout, Records
from simstream.judge.record_table import MAX_RECORDS
from simstream.kernels.judge.page_records import PageColumns
from simstream.model import MAX_ID_BYTES, U64

__all__ = ["CHUNK_RECORDS", "PageRecord", "PageStore", "RecordMoves"]

CHUNK_RECORDS: Final = 1 << 16
"""The most records of a chunk."""


class PageStore:
    """Records under numbers below 2^32: the slot of a chunk, and a place in it.

    A chunk takes 65,536 records and is sealed when full. Once `read_from_disk` names its file, reads go to the
    file, and the chunk takes next to no memory. Records of pages that left stay until `compact` finds enough of
    them. A read raises StateDamaged, which names the file, if a checksum is wrong.
    """

    KINDS = frozenset({SEALED, page_snapshot.OPEN})

    def __init__(self, sketch_words: int, capacity: int = CHUNK_RECORDS, files: FileSystem | None = None) -> None:
        self._chunks = ChunkList(RecordLayout(sketch_words), capacity)
        self._files = OpenFiles(files)
        self._last = -1
        self._deaths = 0
        self._look = False
        """Whether `compact` may find work."""
        self.compactions = 0
        """How often numbers of records have changed, or have become free for other records."""

    def append(
        self,
        *,
        ordinals: NDArray[np.int64],
        times: NDArray[np.int64],
        identities: U64,
        fingerprints: U64,
        sketches: U64,
        short: NDArray[np.bool_] | NDArray[np.uint8],
        rows: NDArray[np.uint32],
        ids: bytes,
        id_ends: NDArray[np.uint32],
    ) -> NDArray[np.uint32]:
        """Add n live records, of ascending ordinals above all before, and return their numbers (n,).

        Columns are (n,), except identities (n, 2) and sketches (n, S); `id_ends` says where each id ends in `ids`.
        Ages are the ordinals; `amend` changes them until the next append. Cost: .1 us each for many, 10 us for one.
        """
        if self._chunks.settle():
            self._look = True
        n, raw = len(ordinals), np.frombuffer(ids, np.uint8)
        flags = short.view(np.uint8)
        pages = PageColumns(ordinals, times, identities, fingerprints, sketches, flags, rows, id_ends).contiguous()
        self._check(pages, len(raw))
        out = np.empty(n, np.uint32)
        done = id_start = 0
        while done < n:
            chunk = self._chunks.filling()
            end = min(n, done + chunk.room)
            first = chunk.append(pages.cut(done, end), raw, id_start)
            out[done:end] = np.arange(first, first + end - done, dtype=np.uint32) + np.uint32(chunk.slot << 16)
            self._chunks.live[chunk.slot] += end - done
            done, id_start = end, int(pages.id_ends[end - 1])
        if n:
            self._last = int(ordinals[-1])
        return out

    def amend(self, cold: RecordNumber, *, age: Age | None = None, row: Row | None = None) -> None:
        """Change a record of the last append. Raises ValueError for other records, and after a call of `parts`."""
        chunk = self._chunks.of(cold)
        if not isinstance(chunk, OpenChunk):
            raise ValueError("only records of the last append can be amended")
        chunk.amend(int(cold) & 0xFFFF, age, row)

    def read(self, cold: RecordNumber) -> PageRecord:
        """Return one record with its id. Cost: 2 to 5 us."""
        return self._chunks.of(cold).page(int(cold) & 0xFFFF)

    def records(self, colds: NDArray[np.uint32]) -> Records:
        """Return the records (n,) of n numbers, with the fields of `record.RecordLayout`.

        Cost: some .1 us each in memory, a system call each on disk, and 10 us for each chunk.
        """
        slots, places = colds >> np.uint32(16), (colds & np.uint32(0xFFFF)).astype(np.int64)
        out: Records = np.empty(len(colds), self._chunks.layout.dtype)
        for slot in np.unique(slots).tolist():
            here = slots == slot
            out[here] = self._chunks.of(slot << 16).some(places[here])
        return out

    def identity(self, cold: RecordNumber) -> bytes:
        """Return a page's identity alone."""
        return self._chunks.of(cold).fields(int(cold) & 0xFFFF).identity

    def order(self, cold: RecordNumber) -> int:
        """Return a number from memory that ascends with the records' ordinals. It is valid until `compact` moves a
        record."""
        return self._chunks.of(cold).rank << 16 | (int(cold) & 0xFFFF)

    def ranks(self) -> NDArray[np.int64]:
        """Return per slot the first number of `order`. It is valid until the next `append` or `compact`."""
        return self._chunks.ranks

    def note_left(self, colds: NDArray[np.uint32]) -> None:
        """Note that the pages of these records are no longer live. Raises ValueError if a chunk has fewer live
        records."""
        slots = colds >> 16
        live = self._chunks.live
        np.subtract.at(live, slots, 1)
        least = live[slots].min(initial=1)
        if least < 0:
            raise ValueError("more records have left a chunk than it has")
        self._deaths += len(slots)
        if least == 0 or self._deaths >= self._chunks.capacity // 16:
            self._look = True

    def due_by_chunk(self, after: int | None, until: int) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.void]]]:
        """Yield the records with `after < time <= until`, chunk by chunk: numbers (n,), and entries (n,) of
        `due_times.DUE`, by time.

        It includes records that left. `after` None is before all times. Cost: it skips chunks without such times.
        In other chunks it reads only these records if `after` is the last call's `until`, else some seven blocks
        more.
        """
        begin = page_due.MIN_TIME_MS if after is None else after
        for chunk in self._chunks.due(begin, until):
            due = chunk.due(begin, until)
            yield due["place"] | np.uint32(chunk.slot << 16), due

    def chunks(self) -> Iterator[tuple[NDArray[np.uint32], Records]]:
        """Yield numbers (n,) and records (n,) with the fields of `record.RecordLayout`, chunk by chunk, in order.
        It includes records that left. Reads everything but ids."""
        for chunk in self._chunks.in_order:
            yield chunk.colds(), chunk.records()

    def compact(self, is_live: IsLive) -> RecordMoves | None:
        """At a batch boundary do one step: drop chunks without live records, and rewrite a half-dead chunk or two
        neighbours.

        Returns rows and the new numbers of their records, mostly None. Cost: some 10 to 20 ms a step, nothing if no
        record has left.
        """
        if not self._look:
            return None
        self._look = False
        self._deaths = 0
        chunks = self._chunks
        self.compactions += chunks.drop_empty()
        chosen = page_compaction.choose(chunks)
        if chosen is None:
            return None
        old = [chunk for chunk in chunks.in_order[chosen] if isinstance(chunk, SealedChunk)]
        made, moves = page_compaction.rewrite(old, chunks.number, chunks.take_slot(), is_live)
        chunks.number += 1
        self.compactions += 1
        chunks.replace(chosen, made, len(moves.rows))
        self._look = True
        return moves

    @property
    def numbers_used(self) -> int:
        """The sealed chunks, in numbers of a table: all of these if each slot has a chunk. Edits leave chunks half
        empty, so slots may run out first."""
        return len(self._chunks.sealed_slots()) * MAX_RECORDS // MAX_SLOTS

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        return self._chunks.nbytes()

    def parts(self) -> list[SnapshotPart]:
        """Return the whole store, at a batch boundary. A chunk that is already on disk has no arrays."""
        if self._chunks.settle():
            self._look = True
        return page_snapshot.parts(self._chunks, self._last)

    def read_from_disk(self, files: Iterable[SealedFile]) -> None:
        """Read the arrays of chunks from these files from now on, and free their memory. Ignores files of other
        chunks."""
        named = {file.name: file for file in files}
        if not named:
            return
        for chunk in self._chunks.in_order:
            if isinstance(chunk, SealedChunk) and (file := named.get(chunk.name)) is not None:
                if dict(file.facts) != msgspec.to_builtins(chunk.facts):
                    raise damaged_store(f"{file.path} is another chunk than {chunk.name}")
                chunk.move(FileChunk(file, self._files))
                self._look = True

    def spill(self, folder: Path) -> None:
        """Let sealed chunks lie in a file without a name in `folder`; they are no parts of a snapshot then.

        Without room there, they stay in memory.
        """
        with suppress(OSError):
            self._chunks.spill = SpillFile(folder)

    def restore(self, parts: Iterable[SnapshotPart]) -> None:
        """Take over what `parts` returned, in an unused store. Raises StateDamaged.

        It checks only the facts of sealed chunks; later reads verify their records.
        """
        self._last = page_snapshot.restore(self._chunks, parts)
        self._look = True

    def check(self) -> None:
        """Check every checksum, order and count, also of all ids. Raises StateDamaged. Cost: linear."""
        self._chunks.settle()
        self._chunks.check(self._last)
        for chunk in self._chunks.in_order:
            chunk.check()

    def close(self) -> None:
        """Close files."""
        self._files.close_all()
        if self._chunks.spill is not None:
            self._chunks.spill.close()

    def _check(self, pages: PageColumns, id_bytes: int) -> None:
        n, sketch_words = len(pages.ordinals), self._chunks.layout.sketch_words
        if any(len(column) != n for column in pages) or pages.sketches.shape[1:] != (sketch_words,):
            raise ValueError("the columns of records do not fit together")
        if n and (pages.ordinals[0] <= self._last or (np.diff(pages.ordinals) <= 0).any()):
            raise ValueError("records come in the order of their ordinals")
        lengths = np.diff(pages.id_ends.astype(np.int64), prepend=0)
        if n and (lengths.min() < 0 or lengths.max() > MAX_ID_BYTES or int(pages.id_ends[-1]) != id_bytes):
            raise ValueError(f"ids lie one behind the other, of at most {MAX_ID_BYTES} bytes")
