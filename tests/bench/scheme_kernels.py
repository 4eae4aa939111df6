"""Kernels of the schemes that simstream does not use: a hash set of the corpus, probed with every variant of a
query, and a sorted array of every variant of the corpus.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from simstream.kernels.hashing import mix
from simstream.kernels.index.hamming import prefetch
from simstream.model import U64

AHEAD = 16
"""Probes whose cache lines are prefetched."""


@njit(nogil=True)
def insert(column: U64, slots: U64) -> None:
    """Put distinct fingerprints other than 0 into `slots`, a power of two of zeros; linear probing."""
    last = np.uint64(slots.size - 1)
    for value in column:
        at = mix(value) & last
        while slots[at] != 0:
            at = (at + np.uint64(1)) & last
        slots[at] = value


@njit(nogil=True)
def probe_variants(queries: U64, masks: U64, slots: U64, owners: NDArray[np.int64], values: U64) -> int:
    """Look up each query under every mask; returns the number of hits, written as far as there is room."""
    last, hits = np.uint64(slots.size - 1), 0
    for q in range(queries.size):
        for m in range(masks.size):
            if m + AHEAD < masks.size:
                prefetch(slots, np.int64(mix(queries[q] ^ masks[m + AHEAD]) & last))
            wanted = queries[q] ^ masks[m]
            at = mix(wanted) & last
            while slots[at] != 0 and slots[at] != wanted:
                at = (at + np.uint64(1)) & last
            if slots[at] == wanted:
                if hits < owners.size:
                    owners[hits], values[hits] = q, wanted
                hits += 1
    return hits


@njit(nogil=True)
def vary(column: U64, masks: U64, variants: U64) -> None:
    """Every fingerprint under every mask, (n * masks,)."""
    for i in range(column.size):
        for m in range(masks.size):
            variants[i * masks.size + m] = column[i] ^ masks[m]


@njit(nogil=True)
def search(
    queries: U64, variants: U64, sources: NDArray[np.uint32], column: U64, owners: NDArray[np.int64], values: U64
) -> int:
    """Find each query among the sorted variants by binary search; hits as of `probe_variants`."""
    hits = 0
    for q in range(queries.size):
        at = np.searchsorted(variants, queries[q])
        while at < variants.size and variants[at] == queries[q]:
            if hits < owners.size:
                owners[hits], values[hits] = q, column[sources[at]]
            hits += 1
            at += 1
    return hits
