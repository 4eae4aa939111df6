"""Compares one page with all entries of a crowd: its best match and the clusters, without a list.

A page among tens of thousands of similar pages has as many matches. Only the best match and the tied clusters
decide its verdict, so no list of matches is written.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy import int64, uint32, uint64
from numpy.typing import NDArray

from simstream.kernels.index.entry_numbers import SHORT_BIT, bit_of, number_of
from simstream.kernels.index.hamming import popcount
from simstream.kernels.jit import lean_kernel
from simstream.kernels.judge.best_match import (
    AGREEMENT,
    DISTANCE,
    ROW,
    SEEN_CLUSTERS,
    LiveColumns,
    cluster_of,
    earliest,
    node_of,
    rank_of,
)
from simstream.model import U64

TILE_ENTRIES: Final = 512
"""Entries of a tile: all are compared before any is examined, so that their data stays in the nearest cache."""
NEXT, TIES, CANDIDATES, MATCHES, TWIN, SIZE = range(6)
"""Places in `CrowdSearch.found`."""


class CrowdColumns(NamedTuple):
    """Entries in columns, with a row for each word of the column `sketch`; only the first n entries
    count."""

    fingerprints: U64  # (room,)
    sketches: U64  # (S, room)
    rows: NDArray[np.uint32]  # (room,) as in `kernels/index/entry_numbers`; 0 for no entry
    buckets: NDArray[np.int64]  # (room,)


class CrowdPage(NamedTuple):
    """The page to compare, and its limits; see `kernels/index/confirm.MatchQueries`."""

    fingerprint: np.uint64
    sketch: U64  # (S,)
    further_draws: int
    further_fingerprints: int
    short: bool
    bucket: int
    told_apart: bool
    """Whether the strict limits hold for short pages."""
    distance: int
    agreement: int
    strict_distance: int
    strict_agreement: int


class CrowdScratch(NamedTuple):
    """Scratch memory for one tile."""

    distances: U64  # (TILE,)
    differences: U64  # (TILE,)
    near: NDArray[np.int64]  # (TILE,)


class CrowdSearch(NamedTuple):
    """The result so far; for the first call `seen` and `found` are 0, and `chosen` is -1."""

    chosen: NDArray[np.int64]  # (3,) as in `kernels/judge/best_match`
    seen: NDArray[np.int64]  # (SEEN,)
    ties: NDArray[np.int64]  # (room,), or (0,) where clusters do not matter
    found: NDArray[np.int64]  # (SIZE,): NEXT, TIES, CANDIDATES, MATCHES, TWIN


@lean_kernel
def search(
    columns: CrowdColumns,
    count: int,
    released: U64,
    page: CrowdPage,
    live: LiveColumns,
    to: CrowdSearch,
    scratch: CrowdScratch,
) -> None:
    """Examine the entries from `to.found[NEXT]` on, as long as there is room for tied clusters.

    Counts the live entries: CANDIDATES within the distance, and MATCHES. TWIN is an entry with a live page and
    exactly the page's key and bucket, or 0. Returns when NEXT is `count`, or when the ties are full: then empty
    them and call again. Cost: some .5 ns an entry, and 2 to 3 ns more for a match.
    """
    fingerprints, rows, chosen, found = columns.fingerprints, columns.rows, to.chosen, to.found
    words, further = columns.sketches.shape[0], int64(page.further_draws)
    sketch_at = int64(page.further_fingerprints)
    bits = int64(64 * (words - sketch_at))
    distances, differences, near = scratch.distances, scratch.differences, scratch.near
    best, closest, chosen_row = int64(chosen[AGREEMENT]), int64(chosen[DISTANCE]), int64(chosen[ROW])
    most, least, ties, room = uint64(page.distance), int64(page.agreement), int64(found[TIES]), to.ties.size
    # a local variable: a count in an array would be read and written for each entry
    candidates = matches = common = int64(0)
    last = uint32(0)
    at, full = int64(found[NEXT]), False
    while at < count and not full:
        size = min(int64(TILE_ENTRIES), count - at)
        begin = uint64(at)
        for i in range(size):
            distances[i] = popcount(fingerprints[begin + uint64(i)] ^ page.fingerprint)
            differences[i] = uint64(0)
        for w in range(further):
            for i in range(size):
                other = popcount(columns.sketches[w, begin + uint64(i)] ^ page.sketch[w])
                distances[i] = min(distances[i], other)
        for w in range(sketch_at, words):
            for i in range(size):
                differences[i] += popcount(columns.sketches[w, begin + uint64(i)] ^ page.sketch[w])
        passed = int64(0)
        for i in range(size):
            near[passed] = i
            passed += int64(distances[i] <= most)
        following = at + size
        for p in range(passed):
            place = uint64(near[p])
            row_bits = rows[begin + place]
            entry = number_of(row_bits)
            distance, equal = int64(distances[place]), bits - int64(differences[place])
            is_short = row_bits & uint32(SHORT_BIT) != 0
            agrees = equal >= least
            if page.told_apart and (page.short or is_short):
                agrees = agrees and distance <= page.strict_distance and equal >= page.strict_agreement
            if agrees and equal < best and room != 0:
                node = node_of(live, entry)  # 0 for a page that has left
                if node != 0 and live.node_cluster[node] == last:
                    # by far the most frequent case: not the best, and in the cluster of the match before
                    common += 1
                    continue
            if entry >> 6 < released.size and bit_of(released, entry) != uint64(0):
                continue
            candidates += 1
            if not agrees:
                continue
            matches += 1
            row = earliest(live, entry)
            if row == 0:
                continue
            if equal >= best:
                closer = equal > best or distance < closest
                if equal == best and distance == closest:
                    closer = rank_of(live, row) < rank_of(live, chosen_row)
                if closer:
                    best, closest, chosen_row = equal, distance, row
                same = distance == 0 and equal == bits and is_short == page.short
                if same and further > 0:
                    same = fingerprints[begin + place] == page.fingerprint
                    for w in range(further):
                        same = same and columns.sketches[w, begin + place] == page.sketch[w]
                if same and columns.buckets[begin + place] == page.bucket:
                    found[TWIN] = entry
            if room == 0:
                continue
            cluster, node = cluster_of(live, row), node_of(live, row)
            if node != 0:
                last = live.node_cluster[node]
            if to.seen[cluster & (SEEN_CLUSTERS - 1)] == cluster:
                continue
            to.seen[cluster & (SEEN_CLUSTERS - 1)] = cluster
            to.ties[ties] = cluster
            ties += 1
            if ties == room:
                following, full = at + int64(place) + 1, True
                break
        at = following
    chosen[AGREEMENT], chosen[DISTANCE], chosen[ROW] = best, closest, chosen_row
    found[NEXT], found[TIES] = at, ties
    found[CANDIDATES] += candidates + common
    found[MATCHES] += matches + common
