"""Writes the records of the page store, computes their checksums, and moves ids.

A record of a recipe with S words of sketch is 9 + S words of 64 bits, little-endian (`judge/pages/record` names the
fields): ordinal, age, time, identity (2), fingerprint, sketch (S), then `row | id_start << 32`, `id_length | short
<< 16 | id_check << 32`, and the check of all words before it. Both checks are MurmurHash3 in its x64 128-bit form
with seed 0: the first 64 bits over the words, and the first 32 bits over the id's bytes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy import uint64
from numpy.typing import NDArray

from simstream.kernels.hashing import mix
from simstream.kernels.jit import helper, inlined, kernel
from simstream.model import U64

PLAIN: Final = 9
"""Words of a record besides the sketch."""
_LOW: Final = uint64(0xFFFFFFFF)
_C1: Final = uint64(0x87C37B91114253D5)
_C2: Final = uint64(0x4CF5AD432745937F)


@inlined
def _rotate(x, by):  # type: ignore[no-untyped-def]
    return (x << uint64(by)) | (x >> uint64(64 - by))


@inlined
def _word(data, at, n):  # type: ignore[no-untyped-def]
    x = uint64(0)
    for i in range(n):
        x |= uint64(data[at + i]) << uint64(8 * i)
    return x


@inlined
def _first(h1, k1):  # type: ignore[no-untyped-def]
    return h1 ^ (_rotate(k1 * _C1, 31) * _C2)


@inlined
def _second(h2, k2):  # type: ignore[no-untyped-def]
    return h2 ^ (_rotate(k2 * _C2, 33) * _C1)


@inlined
def _both(h1, h2, k1, k2):  # type: ignore[no-untyped-def]
    h1 = (_rotate(_first(h1, k1), 27) + h2) * uint64(5) + uint64(0x52DCE729)
    h2 = (_rotate(_second(h2, k2), 31) + h1) * uint64(5) + uint64(0x38495AB5)
    return h1, h2


@inlined
def _finish(h1, h2, n):  # type: ignore[no-untyped-def]
    h1 ^= uint64(n)
    h2 ^= uint64(n)
    h1 += h2
    return mix(h1) + mix(h1 + h2)


@helper
def _check_of(words, i):  # type: ignore[no-untyped-def]
    """Return the check of a record, which its last word should equal."""
    h1 = h2 = uint64(0)
    n = words.shape[1] - 1
    for w in range(0, n - 1, 2):
        h1, h2 = _both(h1, h2, words[i, w], words[i, w + 1])
    if n & 1:
        h1 = _first(h1, words[i, n - 1])
    return _finish(h1, h2, 8 * n)


@helper
def _id_check_of(ids, start, n):  # type: ignore[no-untyped-def]
    """Return the check of an id's bytes."""
    h1 = h2 = uint64(0)
    end = start + n
    while start + 16 <= end:
        h1, h2 = _both(h1, h2, _word(ids, start, 8), _word(ids, start + 8, 8))
        start += 16
    left = end - start
    if left > 8:
        h2 = _second(h2, _word(ids, start + 8, left - 8))
    if left > 0:
        h1 = _first(h1, _word(ids, start, min(left, 8)))
    return _finish(h1, h2, n) & _LOW


@inlined
def _id_of(words, i):  # type: ignore[no-untyped-def]
    """Return start and length of a record's id."""
    n = words.shape[1]
    return np.int64(words[i, n - 3] >> uint64(32)), np.int64(words[i, n - 2] & uint64(0xFFFF))


class PageColumns(NamedTuple):
    """n pages in columns. `id_ends` says where each id ends among the ids of all pages of the batch."""

    ordinals: NDArray[np.int64]  # (n,)
    times: NDArray[np.int64]  # (n,)
    identities: U64  # (n, 2)
    fingerprints: U64  # (n,)
    sketches: U64  # (n, S)
    short: NDArray[np.uint8]  # (n,) 0 or 1
    rows: NDArray[np.uint32]  # (n,)
    id_ends: NDArray[np.uint32]  # (n,)

    def cut(self, start: int, end: int) -> PageColumns:
        """Return the pages from `start` to `end`."""
        return PageColumns._make(column[start:end] for column in self)

    def contiguous(self) -> PageColumns:
        """Return the same pages, with each column contiguous in memory."""
        return PageColumns._make(np.ascontiguousarray(column) for column in self)


class ChosenRecords(NamedTuple):
    """A chunk, and the records of it to keep."""

    words: U64  # (n, 9 + S)
    ids: NDArray[np.uint8]
    keep: NDArray[np.bool_]  # (n,)


@kernel
def write(words: U64, at: int, pages: PageColumns, id_shift: int) -> None:
    """Write records from `at` on, without checks; ages are ordinals.

    Ids end at `id_ends + id_shift`. The first one begins where the id of the record before `at` ends (0 without
    one).
    """
    n = words.shape[1]
    s = pages.sketches.shape[1]
    start = np.int64(0)
    if at > 0:
        first, length = _id_of(words, at - 1)
        start = first + length
    for i in range(pages.ordinals.size):
        row = at + i
        words[row, 0] = words[row, 1] = uint64(pages.ordinals[i])
        words[row, 2] = uint64(pages.times[i])
        words[row, 3] = pages.identities[i, 0]
        words[row, 4] = pages.identities[i, 1]
        words[row, 5] = pages.fingerprints[i]
        for w in range(s):
            words[row, 6 + w] = pages.sketches[i, w]
        end = np.int64(pages.id_ends[i]) + id_shift
        words[row, n - 3] = uint64(pages.rows[i]) | (uint64(start) << uint64(32))
        words[row, n - 2] = uint64(end - start) | (uint64(pages.short[i] != 0) << uint64(16))
        start = end


@kernel
def seal(words: U64, first: int, end: int, ids: NDArray[np.uint8]) -> None:
    """Write the checks of the records from `first` to `end`. Cost: about 50 ns each."""
    n = words.shape[1]
    for i in range(first, end):
        start, length = _id_of(words, i)
        words[i, n - 2] = (words[i, n - 2] & _LOW) | (_id_check_of(ids, start, length) << uint64(32))
        words[i, n - 1] = _check_of(words, i)


@kernel
def damaged(words: U64) -> int:
    """Return the place of the first record with a wrong check, or -1. Does not read ids."""
    n = words.shape[1]
    for i in range(words.shape[0]):
        if words[i, n - 1] != _check_of(words, i):
            return i
    return -1


@kernel
def damaged_id(words: U64, ids: NDArray[np.uint8]) -> int:
    """Return the place of the first record whose id is not behind the previous id, or has a wrong check; or -1.

    The last id must end where `ids` ends; otherwise it returns the number of records.
    """
    n = words.shape[1]
    at = np.int64(0)
    for i in range(words.shape[0]):
        start, length = _id_of(words, i)
        if start != at or start + length > ids.size:
            return i
        if _id_check_of(ids, start, length) != words[i, n - 2] >> uint64(32):
            return i
        at = start + length
    return -1 if at == ids.size else words.shape[0]


@kernel
def id_bytes(chosen: ChosenRecords) -> int:
    """Return how many bytes the ids of the kept records have."""
    total = 0
    for i in range(chosen.keep.size):
        if chosen.keep[i]:
            total += _id_of(chosen.words, i)[1]
    return total


@kernel
def keep_some(chosen: ChosenRecords, out: U64, at: int, out_ids: NDArray[np.uint8], id_at: int) -> tuple[int, int]:
    """Copy the records to keep to `out[at:]`, and their ids to `out_ids[id_at:]`. Return where both end.

    It copies the checks of ids, so that a damaged id stays recognizable. It makes new checks of records.
    """
    words, ids = chosen.words, chosen.ids
    n = words.shape[1]
    for i in range(chosen.keep.size):
        if not chosen.keep[i]:
            continue
        start, length = _id_of(words, i)
        for w in range(n):
            out[at, w] = words[i, w]
        out[at, n - 3] = (words[i, n - 3] & _LOW) | (uint64(id_at) << uint64(32))
        out[at, n - 1] = _check_of(out, at)
        for k in range(length):
            out_ids[id_at + k] = ids[start + k]
        at += 1
        id_at += length
    return at, id_at
