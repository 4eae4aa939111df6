"""Rewrites chunks with few live records into fewer and smaller chunks, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream import memory
from simstream.judge.numbers import Slot
from simstream.judge.pages.chunk import BYTES, WORD, ChunkPlace, SealedChunk, damaged_store, sealed
from simstream.judge.pages.chunk_source import MemoryChunk
from simstream.judge.pages.chunks import COUNT, ChunkList
from simstream.kernels.judge import page_records as kernels
from simstream.kernels.judge.page_records import ChosenRecords

IsLive = Callable[[NDArray[np.uint32], NDArray[np.uint32]], NDArray[np.bool_]]
"""Returns for rows and numbers of records (n,) whether each record belongs to the live page in its row."""
MAX_UNSAVED_CHUNKS: Final = 8
"""How many rewritten chunks may stay in memory until a snapshot has them, besides as many records as new chunks
have."""


class RecordMoves(NamedTuple):
    """Records that have new numbers."""

    rows: NDArray[np.uint32]  # (n,)
    colds: NDArray[np.uint32]  # (n,) the new numbers


def choose(chunks: ChunkList) -> slice | None:
    """Return the chunk or the two neighbours that are worth rewriting as one chunk, or None.

    Two are worth it if half of their records are dead, or if both fit into half a chunk; one, if half of it is
    dead. So at most half of all records in sealed chunks stay dead, and a record is rewritten only after as many
    have died. A fetch adds a record for each record that it lets die. So this holds however many pages lie between
    two snapshots.
    """
    if not _has_room(chunks):
        return None
    slots = chunks.sealed_slots()
    live, count = chunks.live[slots], chunks.columns[slots, COUNT]
    pair_worth = live[:-1] + live[1:] <= np.maximum((count[:-1] + count[1:]) // 2, chunks.capacity // 2)
    worth = 2 * live <= count
    worth[:-1] |= pair_worth
    if not worth.any():
        return None
    first = int(worth.argmax())
    has_pair = first < len(pair_worth) and bool(pair_worth[first])
    return slice(first, first + 2 if has_pair else first + 1)


def _has_room(chunks: ChunkList) -> bool:
    """Whether memory has room for another rewritten chunk until a snapshot has it."""
    rewritten = new = 0
    for chunk in chunks.in_memory():
        if chunk.rewritten:
            rewritten += chunk.count
        else:
            new += chunk.count
    return rewritten < MAX_UNSAVED_CHUNKS * chunks.capacity + new


def rewrite(
    chunks: Sequence[SealedChunk], number: int, slot: Slot, is_live: IsLive
) -> tuple[SealedChunk, RecordMoves]:
    """Return one chunk with the live records of some neighbours, and the moves of its records. At least one record
    is live.

    Cost: a verified read of the chunks, about .1 us a record.
    """
    layout = chunks[0].layout
    chosen = []
    for chunk in chunks:
        records = chunk.records()
        keep = is_live(np.ascontiguousarray(records["row"]), chunk.colds())
        chosen.append(ChosenRecords(chunk.as_words(records), chunk.ids(), keep))
    count = sum(int(each.keep.sum()) for each in chosen)
    if not count:
        raise damaged_store("it counts live records, but has none")
    out = memory.filled((count, layout.words), WORD)
    out_ids = memory.filled(sum(int(kernels.id_bytes(each)) for each in chosen), BYTES)
    at = id_at = 0
    for each in chosen:
        at, id_at = kernels.keep_some(each, out, at, out_ids, id_at)
    records = out.reshape(-1).view(layout.dtype)
    colds = np.arange(count, dtype=np.uint32) + np.uint32(slot << 16)
    moves = RecordMoves(np.ascontiguousarray(records["row"]), colds)
    made = sealed(ChunkPlace(layout, number, slot, chunks[0].rank), records, out_ids)
    made.rewritten = any(chunk.rewritten or not isinstance(chunk.source, MemoryChunk) for chunk in chunks)
    return made, moves
