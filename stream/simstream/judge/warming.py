"""Compiles or loads the judge's rarely used kernels before pages come."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simstream.compiling import CompilingProcess
from simstream.index.crowds import MAX_UNCROWDED_MATCHES
from simstream.index.index import Index
from simstream.index.keys import KeyColumns
from simstream.index.plan import choose
from simstream.judge.policy import Policy
from simstream.judge.state import JudgeState
from simstream.model import U64, FingerprintColumns, PageKind, PageSource

PAGES = MAX_UNCROWDED_MATCHES + 100
WINDOW_MS = 1000
WARMED_FOR = (1, 100_000, 10_000_000)
"""Entries of a segment that is scanned, of one with wide low parts, and of one with narrow low parts."""


STEPS = ((0, PAGES, 0), (PAGES, 1, 0), (PAGES + 1, 1, 3 * WINDOW_MS))
"""First number, count and time of made-up pages: a crowd, one more page like it, and one so late that all others
leave the window at once."""
FEW = ((0, 2, 0), (2, 1, 3 * WINDOW_MS))


def warm_judge(policy: Policy, few: bool = False) -> None:
    """Compile all that a judge of this policy needs, or load it from numba's cache: then no page waits for it.

    `few`: only what the first pages need. Cost: some .1 s, or a minute where nothing is compiled yet.
    """
    if few:
        _warm_resolver(policy, FEW)
        return
    _warm_resolver(policy, STEPS)
    _warm_index(policy)


def warming_process(policy: Policy, few: bool) -> CompilingProcess:
    """Return a process that does `warm_judge`."""
    return CompilingProcess(__name__, "_main", pickle.dumps((policy, few)))


def _main() -> None:
    policy, few = pickle.load(sys.stdin.buffer)  # from `warming_process`, and nobody else
    warm_judge(policy, few=few)


def _warm_resolver(policy: Policy, steps: Sequence[tuple[int, int, int]]) -> None:
    with JudgeState(replace(policy, window_ms=WINDOW_MS)) as state:
        for first, count, time in steps:
            columns = _columns(first, count, time, policy.sketch_words)
            sources = [PageSource("", 0, offset) for offset in columns.offset.tolist()]
            state.resolver.judge(columns, columns.time, first, sources)


def _warm_index(policy: Policy) -> None:
    """Fill an index for each plan, and ask it, release its entries and merge its segments."""
    fingerprints = np.zeros(1, np.uint64)
    sketches = np.zeros((1, policy.sketch_words), np.uint64)
    short = np.zeros(1, np.bool_)
    keys = KeyColumns(fingerprints, sketches, short.view(np.uint8))
    for plan in dict.fromkeys(choose(policy.distance, entries) for entries in WARMED_FOR):
        index = Index(
            plan,
            sketches.shape[1],
            *policy.limits,
            1,
            policy.short_limits,
            further_draws=policy.lookups - 1,
            further_fingerprints=policy.fingerprints - 1,
        )
        index.join(keys, keys)
        for number in range(1, 5):  # every second one seals a segment, and the last is merged with those before
            index.add(np.full(1, number, np.uint32), fingerprints, sketches, short, np.zeros(1, np.int64))
            index.query(fingerprints, sketches, short)
            index.release(np.full(1, number, np.uint32))
            index.settle()
        index.dropped()


def _columns(first: int, count: int, time: int, sketch_words: int) -> FingerprintColumns:
    """Return different pages; any two of them differ in at most four bits."""
    numbers = np.arange(first, first + count)
    ids = [f"{number}".encode() for number in numbers.tolist()]
    return FingerprintColumns(
        offset=numbers,
        kind=np.full(count, PageKind.READABLE, np.uint8),
        reason=np.zeros(count, np.uint8),
        time=np.full(count, time, np.int64),
        identity=np.column_stack([numbers, numbers]).astype(np.uint64),
        fingerprint=_alike(numbers),
        sketch=np.zeros((count, sketch_words), np.uint64),
        words=np.full(count, 1 << 20, np.uint32),
        id_ends=np.cumsum([len(one) for one in ids], dtype=np.uint32),
        url_ends=np.zeros(count, np.uint32),
        ids=b"".join(ids),
        urls=b"",
    )


def _alike(numbers: NDArray[np.int64]) -> U64:
    """Return a fingerprint with two of 64 bits for each number below 2,016."""
    one, other = np.triu_indices(64, 1)
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    found: U64 = bits[one[numbers]] | bits[other[numbers]]
    return found
