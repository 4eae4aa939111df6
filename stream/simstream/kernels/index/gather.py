"""Gathers the matches of several parts of the index in the order of queries.

`keys` are query << 32 | entry, with ascending queries. `facts` are short << 31 | same << 30 | distance << 16 |
agreement.
`kernels/index/confirm` writes both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int64, uint8, uint16, uint32, uint64
from numpy.typing import NDArray

from simstream.kernels.jit import lean_kernel
from simstream.model import U64


class GatheredMatches(NamedTuple):
    """Columns (n,) of matches in the order of their queries. Within one query they have no order."""

    entry: NDArray[np.int64]
    distance: NDArray[np.uint8]
    agreement: NDArray[np.uint16]
    short: NDArray[np.uint8]
    same: NDArray[np.uint8]
    bucket: NDArray[np.int64]


@lean_kernel
def count(keys: U64, counts: NDArray[np.int64]) -> None:
    """Add the number of matches of each of the first q queries to `counts` (q,)."""
    for i in range(keys.size):
        query = int64(keys[i] >> uint64(32))
        if query >= counts.size:
            return
        counts[query] += 1


@lean_kernel
def gather(
    keys: U64, facts: NDArray[np.uint32], buckets: NDArray[np.int64], ends: NDArray[np.int64], out: GatheredMatches
) -> None:
    """Put the matches of the first q queries behind the earlier ones, at `ends` (q,), which moves on.

    Cost: 1 to 3 ns a match.
    """
    for i in range(keys.size):
        query = int64(keys[i] >> uint64(32))
        if query >= ends.size:
            return
        at = ends[query]
        ends[query] = at + 1
        out.entry[at] = int64(keys[i] & uint64(0xFFFFFFFF))
        out.distance[at] = uint8((facts[i] >> uint32(16)) & uint32(0xFF))
        out.agreement[at] = uint16(facts[i] & uint32(0xFFFF))
        out.short[at] = uint8(facts[i] >> uint32(31))
        out.same[at] = uint8((facts[i] >> uint32(30)) & uint32(1))
        out.bucket[at] = buckets[i]
