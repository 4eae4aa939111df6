"""Measures what a scan, a probe and a candidate cost on this machine.

Tables of random numbers stand for real ones: a probe reads the same places and makes the same comparisons for any
numbers, and nothing has to be sorted first.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from time import thread_time
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.index.answers import HitBuffers
from simstream.index.keys import frozen
from simstream.index.plan import Plan
from simstream.kernels.index.hamming import scan
from simstream.kernels.index.packed import locate_packed, probe_packed
from simstream.model import U64

SCANNED_VALUES: Final = 1 << 18
"""The number of values in the scan: 2 MB, as much as the index scans at a time."""
SIZES: Final = (1 << 18, 1 << 21, 1 << 24)
"""The numbers of fingerprints in the probed tables: 2 MB, 16 MB and 128 MB."""
FEW, MANY = 1, 7
"""Probes of these tables find 2^FEW and 2^MANY candidates each: two equations for a probe and a candidate."""
TABLES: Final = 2
"""The number of tables of one probe each. Nothing prefetches their cache lines: a third equation, for a table."""
TURN_S: Final = 0.05
ENTRY_BYTES: Final = 6
ROOM_HITS: Final = 1 << 18
"""The room for hits."""


class SizeCosts(msgspec.Struct, frozen=True):
    """The costs in tables of so many bytes, in ns."""

    nbytes: int
    table_ns: float
    """The cost of a table before its probes."""
    probe_ns: float
    candidate_ns: float


class MachineSpeed(msgspec.Struct, frozen=True):
    """The costs on this machine, in ns. `sizes` are by ascending bytes."""

    scanned_ns: float
    halving_ns: float
    sizes: tuple[SizeCosts, ...]

    def at(self, nbytes: int) -> SizeCosts:
        """Return the costs in tables of `nbytes`, interpolated between the two nearest sizes on a log scale.

        Beyond the measured sizes the nearest size holds.
        """
        doublings = [log2(size.nbytes) for size in self.sizes]
        place = log2(max(nbytes, 1))
        costs = zip(*((size.table_ns, size.probe_ns, size.candidate_ns) for size in self.sizes), strict=True)
        table, probe, candidate = (float(np.interp(place, doublings, cost)) for cost in costs)
        return SizeCosts(nbytes, table, probe, candidate)


def measure(distance: int, flips: int = 0) -> MachineSpeed:
    """Measure all costs at a distance from 0 to 16, on one thread. Takes about a second, and 250 MB of memory.

    `flips`: so many of the `distance` bits differ in the prefix; fewer may then differ after it.
    """
    within = max(distance - flips, 0) + 1  # nearly all timed probes flip one bit of their own
    rng = np.random.default_rng(20070508)
    sizes = []
    high = frozen(rng.integers(0, 1 << 32, SIZES[-1], np.uint32), np.uint32)
    low = frozen(rng.integers(0, 1 << 16, SIZES[-1], np.uint16), np.uint16)
    queries = frozen(np.sort(rng.integers(0, 1 << 64, 1 << 14, np.uint64)), np.uint64)
    for entries in SIZES:
        few, many, lone = (
            _probe(high[:entries], low[:entries], _plan(entries, count, each, own), within, queries)
            for count, each, own in ((1, FEW, 1), (1, MANY, 1), (TABLES, FEW, 0))
        )
        candidate = max(many - few, 0.0) / ((1 << MANY) - (1 << FEW))
        probe = max(few - candidate * (1 << FEW), 0.0)
        sizes.append(SizeCosts(ENTRY_BYTES * entries, max(lone - few, 0.0), probe, candidate))
    column = frozen(rng.integers(0, 1 << 64, SCANNED_VALUES, np.uint64), np.uint64)
    return MachineSpeed(_scan(distance, queries, column), _halving(queries, high, low), tuple(sizes))


def _plan(entries: int, tables: int, each: int, flips: int) -> Plan:
    """Return a plan for so many entries, a power of two, with 2^`each` entries under every prefix of all tables."""
    bits = (entries // tables).bit_length() - 1 - each
    return Plan(tables, (bits,) * tables, flips)


def _probe(high: NDArray[np.uint32], low: NDArray[np.uint16], plan: Plan, within: int, queries: U64) -> float:
    """Return ns a probe of the tables of this plan, with its flips, over columns that stand for packed tables."""
    layout, masks, groups = plan.layout(plan.complete_for)
    each = len(high) // plan.tables
    parts = [_directory(bits, each) + np.uint32(t * each) for t, bits in enumerate(plan.prefix_bits)]
    directory = frozen(np.concatenate(parts), np.uint32)
    hits = HitBuffers()
    hits.make(ROOM_HITS)

    def look_up(first: int) -> int:
        following, _ = probe_packed(
            queries[: first + 256],
            first,
            within,
            *(0, 0),  # not divided
            high,
            low,
            directory,
            layout,
            masks,
            groups,
            hits.places,
            hits.ends,
            hits.tags,
        )
        return int(following)

    return _each(look_up, len(queries)) / len(masks)


def _scan(distance: int, queries: U64, column: U64) -> float:
    """Return ns a value of a plain scan."""
    hits = HitBuffers()
    hits.make(ROOM_HITS)

    def look_up(first: int) -> int:
        following, _ = scan(queries[: first + 1], first, distance, column, hits.places, hits.tags)
        return int(following)

    return _each(look_up, len(queries)) / len(column)


def _halving(queries: U64, high: NDArray[np.uint32], low: NDArray[np.uint16]) -> float:
    """Return ns a step of a binary search through the largest table."""
    bits = 8
    entries = len(high)
    directory = frozen(_directory(bits, entries), np.uint32)

    def search(first: int) -> int:
        values = queries[first : first + 256].copy()
        locate_packed(values, high, low, directory, bits, np.zeros(len(values), np.uint64))
        return first + len(values)

    return _each(search, len(queries)) / (entries.bit_length() - 1 - bits)


def _directory(bits: int, entries: int) -> NDArray[np.uint32]:
    """Return where each prefix begins, with equally many entries under each."""
    starts = np.arange((1 << bits) + 1, dtype=np.int64) * (entries >> bits)
    return starts.astype(np.uint32)


def _each(step: Callable[[int], int], count: int) -> float:
    """Return ns a query of `step`, the best of two turns, by this thread's own time: others may use its core, too.

    `step` takes queries from a place on and returns the next.
    """
    step(0)  # loads or compiles the kernel
    best = float("inf")
    for _ in range(2):
        began, at, done = thread_time(), 0, 0
        while (spent := thread_time() - began) < TURN_S / 2 or not done:
            following = step(at)
            done += following - at
            at = following % count
        best = min(best, spent / done)
    return best * 1e9
