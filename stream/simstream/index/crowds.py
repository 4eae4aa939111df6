"""Keeps crowds: all entries around one value of a draw, where thousands of pages are alike, in columns.

A page near the middle of a crowd is compared with the crowd alone, from end to end. Tables would find the crowd's
entries one by one; here they lie side by side. The index makes a crowd when pages have very many
matches or candidates, and adds new entries to it. Crowds are no part of a snapshot. They never change an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from simstream.index.fresh_entries import FreshEntries
from simstream.index.keys import KeyColumns
from simstream.kernels.index.entry_numbers import NUMBER_MASK
from simstream.kernels.judge.crowd import CrowdColumns
from simstream.model import U64

MAX_UNCROWDED_MATCHES: Final = 512
"""A query with more matches than this in one part of the index is crowded. In a list a match costs .2 us."""
MAX_UNCROWDED_CANDIDATES: Final = 8192
"""A query with more candidates than this in one part of the index is crowded, too. A candidate costs some 10 ns."""
MAX_CROWDS: Final = 64
MAX_VALUES_AT_ONCE: Final = 4096
"""The most values that are compared with all middles at once, for the sake of memory."""
MAX_ENTRIES: Final = 1 << 20
"""The most entries of all crowds together: 52 bytes each with a sketch of 256 bits. A large index has more:"""
ENTRIES_A_PLACE: Final = 13
"""one for so many of its entries, so 4 bytes each. They are taken only where so many pages are alike."""
WORTH: Final = 32
"""A crowd pays, and is made, once crowded queries have met one match for every 32 entries of the index."""
FIRST_ROOM_ENTRIES: Final = 4096


class CrowdPart(Protocol):
    """A part of the index that can return all entries near a value of a draw."""

    def about(self, draw: int, fingerprint: int, distance: int, most: int) -> FreshEntries | None:
        """Return the entries whose value of this draw is within `distance`, which may be any; None if there
        are more than `most`."""


class EntryCrowd:
    """Entries around a `middle`, in columns that grow."""

    def __init__(self, middle: int, entries: FreshEntries) -> None:
        self.middle = middle
        self.count = 0
        self.used = 0
        """When it was used last."""
        self.columns = _columns(FIRST_ROOM_ENTRIES, entries.sketches.shape[1])
        self.append(entries)

    def append(self, entries: FreshEntries) -> None:
        """Add entries."""
        end = self.count + len(entries.rows)
        if end > len(self.columns.rows):
            self._move(_columns(2 * end, len(self.columns.sketches)), slice(self.count))
        columns, here = self.columns, slice(self.count, end)
        columns.fingerprints[here], columns.rows[here] = entries.fingerprints, entries.rows
        columns.sketches[:, here], columns.buckets[here] = entries.sketches.T, entries.buckets
        self.count = end

    def keep(self, chosen: NDArray[np.bool_]) -> None:
        """Keep the chosen entries and drop all others."""
        which = np.flatnonzero(chosen)
        self._move(self.columns, which)
        self.count = len(which)

    def _move(self, to: CrowdColumns, which: slice | NDArray[np.int64]) -> None:
        old, count = self.columns, self.count if isinstance(which, slice) else len(which)
        to.fingerprints[:count], to.rows[:count] = old.fingerprints[which], old.rows[which]
        to.sketches[:, :count], to.buckets[:count] = old.sketches[:, which], old.buckets[which]
        self.columns = to


class EntryCrowds:
    """The crowds around the values of one draw. Queries reach as far as `distance`.

    A crowd reaches twice as far from its middle. So it has every entry near a query that is within the distance of
    the middle. All `draws` have equal parts of the entries that crowds may have.
    """

    def __init__(self, distance: int, draw: int, draws: int) -> None:
        self._distance, self.draw, self._draws = distance, draw, draws
        self._most = MAX_ENTRIES // draws
        self._crowds: list[EntryCrowd] = []
        self._middles: U64 = np.empty(0, np.uint64)
        self._clock = 0
        self._owed = 0
        """Matches of crowded queries that had no crowd."""

    def __len__(self) -> int:
        return sum(crowd.count for crowd in self._crowds)

    def covering(self, keys: KeyColumns) -> NDArray[np.bool_]:
        """Return for each key (n,) whether a crowd has all entries within the distance of its value of the draw."""
        if not self._crowds:
            return np.zeros(len(keys.fingerprints), np.bool_)
        return np.asarray(self._are_near(keys.draw(self.draw), self._distance).any(axis=1))

    def of(self, fingerprint: int) -> EntryCrowd | None:
        """Return the closest crowd that covers this fingerprint, or None."""
        if not self._crowds:
            return None
        distances = np.bitwise_count(self._middles ^ np.uint64(fingerprint))
        which = int(distances.argmin())
        if distances[which] > self._distance:
            return None
        self._clock += 1
        self._crowds[which].used = self._clock
        return self._crowds[which]

    def make(self, fingerprint: int, parts: Sequence[CrowdPart], entries: int) -> EntryCrowd | None:
        """Make a crowd for a crowded query that no crowd covers.

        Return None if a crowd would not pay yet, or would be too large. `entries` is the number of entries in all
        parts. Cost: .1 to .3 ns for each entry, if a crowd is made.
        """
        self._owed += MAX_UNCROWDED_MATCHES
        if WORTH * self._owed < entries:
            return None
        self._owed = 0
        self._most = max(MAX_ENTRIES, entries // ENTRIES_A_PLACE) // self._draws
        near = self._about(parts, fingerprint, self._distance)
        if near is None or not len(near.rows):
            return None
        middle = _middle(near.draw(self.draw))
        if (middle ^ fingerprint).bit_count() > self._distance:
            middle = fingerprint
        found = self._about(parts, middle, 2 * self._distance)
        if found is None:
            return None
        order = np.argsort(found.rows & np.uint32(NUMBER_MASK))  # data by row lies side by side, too
        made = EntryCrowd(middle, FreshEntries(*(column[order] for column in found.columns)))
        self._crowds.append(made)
        self._clock += 1
        made.used = self._clock
        self._let_go()
        return made

    def add(self, entries: FreshEntries) -> None:
        """Add the new entries that belong to a crowd."""
        if not self._crowds:
            return
        near = self._are_near(entries.draw(self.draw), 2 * self._distance)
        for which in np.flatnonzero(near.any(axis=0)).tolist():
            self._crowds[which].append(entries.where(near[:, which]))
        self._let_go()

    def drop_released(self, released: U64) -> None:
        """Drop entries whose bit is 1 in `released`, before their numbers are given back and used again."""
        for crowd in self._crowds:
            numbers = crowd.columns.rows[: crowd.count] & np.uint32(NUMBER_MASK)
            bits = (numbers & np.uint32(63)).astype(np.uint64)
            there = (released[numbers >> np.uint32(6)] >> bits) & np.uint64(1) == 0
            if not there.all():
                crowd.keep(there)

    def _are_near(self, values: U64, distance: int) -> NDArray[np.bool_]:
        """Return for each value (n,) and each crowd's middle (m,) whether they are within the distance: (n, m)."""
        near = np.empty((len(values), len(self._middles)), np.bool_)
        for at in range(0, len(values), MAX_VALUES_AT_ONCE):
            some = slice(at, at + MAX_VALUES_AT_ONCE)
            near[some] = np.bitwise_count(values[some, None] ^ self._middles) <= distance
        return near

    def _let_go(self) -> None:
        """Drop the least recently used crowds until the rest is within both limits."""
        while len(self._crowds) > MAX_CROWDS or len(self) > self._most:
            self._crowds.remove(min(self._crowds, key=lambda crowd: crowd.used))
        self._middles = np.array([crowd.middle for crowd in self._crowds], np.uint64)

    def _about(self, parts: Sequence[CrowdPart], fingerprint: int, distance: int) -> FreshEntries | None:
        """Return all entries within a distance; None if there are more than crowds may have."""
        found, room = None, self._most
        for part in parts:
            some = part.about(self.draw, fingerprint, distance, room)
            if some is None:
                return None
            found = some if found is None else found.followed_by(some)
            room -= len(some.rows)
        return found


def _columns(room: int, sketch_words: int) -> CrowdColumns:
    return CrowdColumns(
        np.empty(room, np.uint64),
        np.empty((sketch_words, room), np.uint64),
        np.empty(room, np.uint32),
        np.empty(room, np.int64),
    )


def _middle(fingerprints: U64) -> int:
    """Return the fingerprint with each bit as most fingerprints have it."""
    bits = (fingerprints[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    most = 2 * bits.sum(axis=0, dtype=np.int64) > len(fingerprints)
    return sum(1 << place for place in np.flatnonzero(most).tolist())
