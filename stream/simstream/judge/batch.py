"""Holds a batch: the readable pages that are judged together, in columns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simstream.hash_secret import process_secret
from simstream.index.keys import KeyColumns
from simstream.judge.accepted_page import ids_of
from simstream.judge.numbers import BEFORE_BATCH, NO_ENTRY, BatchPlace, EntryId, KeyGroup, Ordinal, Row
from simstream.kernels.judge.key_groups import group_keys, place_keys
from simstream.model import U64, FingerprintColumns, PageKind

MAX_BATCH_PAGES = 4096
"""The most pages of one batch; they are compared with one another."""


@dataclass(slots=True)
class PageBatch:
    """n readable pages between `LivePages.begin` and `LivePages.settle`."""

    ordinals: NDArray[np.int64]  # (n,)
    times: NDArray[np.int64]  # (n,)
    identities: U64  # (n, 2)
    fingerprints: U64  # (n,)
    sketches: U64  # (n, S)
    short: NDArray[np.bool_]  # (n,)
    buckets: NDArray[np.int64]  # (n,)
    ids: bytes
    id_ends: NDArray[np.uint32]  # (n,)
    rows: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))  # (n,)
    colds: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))  # (n,)
    kept: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))  # (n,)
    """Whether each page has the row of its earlier version."""
    places: U64 = field(default_factory=lambda: np.empty(0, np.uint64))  # (n,)
    """Per page a hash of its key and bucket; see `key_places`."""
    groups: list[KeyGroup] = field(default_factory=list)
    """Per page the number of its group: pages with the same key and bucket."""
    group_column: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # (n,)
    """The same numbers, for all pages at once."""
    firsts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Per group its first page."""
    live: dict[bytes, Row] = field(default_factory=dict)
    """Rows of the live pages by identity, as far as the batch has changed them; 0 if the page has left."""
    heads: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    """Per group the number + 1 of the page that founded its latest entry in this batch; 0 for none."""
    following: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    """Per founder of an entry the number + 1 of the previous founder of its group; 0 for none."""
    founded: list[BatchPlace] = field(default_factory=list)
    """The pages that have founded an entry, in their order."""
    founders: dict[EntryId, BatchPlace] = field(default_factory=dict)
    """The new entries that are not in the index yet, each with the place of its page, or BEFORE_BATCH."""

    def __len__(self) -> int:
        return len(self.ordinals)

    def __post_init__(self) -> None:
        self.kept = np.zeros(len(self), np.bool_)
        keys = _key_words(self.keys(slice(None)), self.buckets)
        self.places = place_keys(keys, process_secret())
        self.group_column, self.firsts = group_keys(keys, self.places)
        self.groups = self.group_column.tolist()
        self.heads, self.following = np.zeros(len(self.firsts), np.uint32), np.zeros(len(self), np.uint32)
        self._identities = self.identities.tobytes()

    _identities: bytes = b""

    def identity(self, number: BatchPlace) -> bytes:
        """Return the identity of page `number`."""
        return self._identities[16 * number : 16 * number + 16]

    def are_alone(self) -> NDArray[np.bool_]:
        """Return for each page (n,) whether no other page of the batch has its key and bucket."""
        alone: NDArray[np.bool_] = np.bincount(self.group_column)[self.group_column] == 1
        return alone

    def keys(self, pages: slice | NDArray[np.int64]) -> KeyColumns:
        """Return the keys of these pages."""
        return KeyColumns(self.fingerprints[pages], self.sketches[pages], self.short.view(np.uint8)[pages])

    def found(self, number: BatchPlace, row: Row) -> None:
        """Note that page `number`, in this row, has founded an entry."""
        group = self.groups[number]
        self.following[number], self.heads[group] = self.heads[group], number + 1
        self.founders[EntryId(row)] = number
        self.founded.append(number)

    def entry_of(self, group: KeyGroup) -> EntryId:
        """Return the latest entry that a page of this group has founded in this batch; 0 for none."""
        head = int(self.heads[group])
        return EntryId(Row(int(self.rows[head - 1]))) if head else NO_ENTRY

    def number_of(self, row: Row) -> BatchPlace:
        """Return which page of the batch has this row; BEFORE_BATCH for none."""
        found = np.flatnonzero(self.rows == row)
        return BatchPlace(int(found[0])) if len(found) else BEFORE_BATCH

    @classmethod
    def of_readable(
        cls,
        columns: FingerprintColumns,
        time: NDArray[np.int64],
        ordinal: Ordinal,
        short: NDArray[np.bool_],
        buckets: NDArray[np.int64],
    ) -> PageBatch:
        """Return the readable pages among n accepted pages as a batch.

        `time`, `short` and `buckets` are (n,). `ordinal` is the ordinal of the first accepted page.
        """
        readable = columns.kind == PageKind.READABLE
        ids, id_ends = columns.ids, columns.id_ends
        identities = columns.identity.copy()  # a mask would release the GIL, and then wait for it
        if not readable.all():
            identities = identities[readable]
            ids, id_ends = ids_of(columns, readable)
        return cls(
            ordinals=ordinal + np.flatnonzero(readable).astype(np.int64),
            times=time[readable],
            identities=identities,
            fingerprints=columns.fingerprint[readable],
            sketches=columns.sketch[readable],
            short=short[readable],
            buckets=buckets[readable],
            ids=ids,
            id_ends=id_ends,
        )

    @classmethod
    def empty(cls, sketch_words: int) -> PageBatch:
        """Return a batch without pages."""
        none = np.empty(0, np.int64)
        return cls(
            ordinals=none,
            times=none,
            identities=np.empty((0, 2), np.uint64),
            fingerprints=np.empty(0, np.uint64),
            sketches=np.empty((0, sketch_words), np.uint64),
            short=np.empty(0, np.bool_),
            buckets=none,
            ids=b"",
            id_ends=np.empty(0, np.uint32),
        )


def key_places(keys: KeyColumns, buckets: NDArray[np.int64]) -> U64:
    """Return for each of n keys with its bucket a hash (n,) that strangers cannot choose."""
    return place_keys(_key_words(keys, buckets), process_secret())


def _key_words(keys: KeyColumns, buckets: NDArray[np.int64]) -> U64:
    """Return all that tells n keys and their buckets apart, as words (n, 3 + S)."""
    words = np.empty((len(buckets), 3 + keys.sketches.shape[1]), np.uint64)
    words[:, 0], words[:, 1], words[:, 2] = keys.fingerprints, keys.short, buckets.view(np.uint64)
    words[:, 3:] = keys.sketches
    return words
