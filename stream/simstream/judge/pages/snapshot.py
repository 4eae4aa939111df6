"""Converts the page store into parts of a snapshot, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.files.snapshot_part import SnapshotPart
from simstream.judge.numbers import NO_SLOT, Slot
from simstream.judge.pages.chunk import BYTES, SEALED, SealedChunk, damaged_store, from_part
from simstream.judge.pages.chunks import ChunkList
from simstream.judge.pages.open_chunk import OpenChunk

OPEN: Final = "pages-open"


class OpenFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of the changing part, besides its arrays."""

    number: int
    """The number of the next sealed chunk."""
    rank: int
    """The rank of the next open chunk."""
    last: int
    """The ordinal of the last record ever appended, -1 for none."""
    slot: Slot = NO_SLOT
    """The slot of the open chunk, -1 for none, with its rank and its number of live records."""
    open_rank: int = -1
    live: int = 0


def parts(chunks: ChunkList, last_ordinal: int) -> list[SnapshotPart]:
    """Return the open chunk and the table of all chunks as a changing part, and a part for each sealed chunk.

    A sealed chunk that is already on disk has no arrays in its part.
    """
    sealed = [chunk for chunk in chunks.in_order if isinstance(chunk, SealedChunk)]
    known = [(chunk.facts.number, chunk.slot, int(chunks.live[chunk.slot])) for chunk in sealed]
    arrays: dict[str, NDArray[Any]] = {"chunks": np.array(known, np.int64).reshape(-1, 3)}
    facts = OpenFacts(chunks.number, chunks.rank, last_ordinal)
    if chunks.in_order and isinstance(last := chunks.in_order[-1], OpenChunk):
        live = int(chunks.live[last.slot])
        facts = msgspec.structs.replace(facts, slot=last.slot, open_rank=last.rank, live=live)
        arrays |= {"records": last.as_words(last.records()), "ids": last.ids()}
    part = SnapshotPart("pages", OPEN, msgspec.to_builtins(facts), arrays, changes=True)
    return [part, *(chunk.part() for chunk in sealed)]


def restore(chunks: ChunkList, given: Iterable[SnapshotPart]) -> int:
    """Take over what `parts` returned, in an unused store, and return the last ordinal. Raises StateDamaged."""
    by_kind: dict[str, dict[str, SnapshotPart]] = {SEALED: {}, OPEN: {}}
    for part in given:
        by_kind[part.kind][part.name] = part
    sealed = by_kind[SEALED]
    if len(by_kind[OPEN]) != 1:
        raise damaged_store("it has no changing part, or more than one")
    [part] = by_kind[OPEN].values()
    facts = part.facts_as(OpenFacts)
    table = part.arrays.get("chunks", np.empty(0))
    if table.dtype != np.int64 or table.shape != (len(sealed), 3):
        raise damaged_store("its table of chunks does not fit its chunks")
    for number, slot, live in table.tolist():
        name = f"pages-{number}"
        if name not in sealed:
            raise damaged_store(f"it lacks the chunk {name}")
        chunk = from_part(chunks.layout, sealed[name])
        if chunk.slot != slot or chunk.count > chunks.capacity or number >= facts.number:
            raise damaged_store(f"its chunk {name} is another one")
        chunks.put_last(chunk, live)
    if facts.slot >= 0:
        _restore_open(chunks, part, facts)
    chunks.find_free()
    chunks.number, chunks.rank = facts.number, facts.rank
    chunks.check(facts.last)
    return facts.last


def _restore_open(chunks: ChunkList, part: SnapshotPart, facts: OpenFacts) -> None:
    words, ids = part.arrays.get("records", np.empty(0)), part.arrays.get("ids", np.empty(0))
    whole = words.dtype == np.uint64 and words.shape[1:] == (chunks.layout.words,)
    if not whole or ids.dtype != BYTES or ids.ndim != 1 or facts.slot >> 16:
        raise damaged_store("its open chunk does not have the shape of a chunk")
    chunk = OpenChunk(chunks.layout, facts.slot, facts.open_rank, chunks.capacity)
    chunk.restore(words, ids)
    chunks.put_last(chunk, facts.live)
