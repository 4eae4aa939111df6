"""Merging: which segments become one, and how, so that few segments remain and each entry moves seldom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream.index.segment import Segment
from stream.kernels.permute import keep_live, merge_two
from stream.model import U64

FACTOR = 4
"""Each segment is at least so many times the one after it; n entries lie in about log4(n / limit) segments."""

Run = tuple[U64, NDArray[np.int32]]
"""Fingerprints in order, one an entry, and the entries' numbers."""


def first_to_merge(sizes: Sequence[int], fresh: int) -> int:
    """From which segment on all become one with `fresh` new entries; `len(sizes)` for none."""
    first = len(sizes)
    while first > 0 and sizes[first - 1] < FACTOR * fresh:
        first -= 1
        fresh += sizes[first]
    return first


def live_run(segment: Segment, home: NDArray[np.int32]) -> Run:
    """A segment's live entries; linear."""
    values = np.empty(len(segment), np.uint64)
    entries = np.empty(len(segment), np.int32)
    kept = keep_live(segment.values, segment.starts, segment.entries, home, segment.tag, values, entries)
    return values[:kept], entries[:kept]


def merged(runs: Sequence[Run]) -> Run:
    """Several runs as one; linear in each step, so give the smallest last (they are merged from the end)."""
    values, entries = runs[-1]
    for left, left_entries in reversed(runs[:-1]):
        out = np.empty(len(left) + len(values), np.uint64)
        out_entries = np.empty(len(out), np.int32)
        merge_two(left, left_entries, values, entries, out, out_entries)
        values, entries = out, out_entries
    return values, entries
