"""Decides how the tables of a segment are cut and probed so that no match within a distance is missed.

The general design cuts the 64 bits into m blocks. It makes a table for each choice of r blocks as prefix. Probes
flip up to f bits of the prefix. With k = q m + s it is complete for distance k if and only if r q + max(0, s - (m -
r)) <= f. Here r = 1: there are T disjoint prefixes. By the pigeonhole principle they are complete for k <= T (f +
1) - 1, even if they do not cover all 64 bits. For a smaller distance k some tables need fewer flips: the sum of
(flips + 1) over the tables must be k + 1.

Source of tables and prefixes: Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling (2007). Source of
the uneven shares of flips: the general pigeonhole principle of Qin et al., GPH (2018).
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import combinations
from math import comb
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.errors import SettingsError

MAX_DISTANCE = 16
"""The greatest distance that the index supports."""
MIN_BITS, MAX_BITS = 8, 24
"""Bits of a prefix. It contains the leading byte, which decides the shard; its directory has 2^bits places."""
MAX_TABLES = 8
"""No plan has more: their prefixes would not fit into 64 bits."""
MAX_PROBES = 1 << 14

SCANNED_NS = 0.1
"""Nanoseconds to compare a value in a plain scan."""
CACHED_NS, FETCHED_NS = 0.3, 0.6
"""Nanoseconds for a candidate in tables that fit into the processor's caches, and in larger ones."""
MAX_CACHED_BYTES = 1 << 25
TABLE_NS = 20.0
"""Nanoseconds that a table costs a query before its probes."""
NARROW_BITS = 16
"""With a prefix of at least this many bits the rest of a fingerprint takes 6 bytes, else 8
(`kernels/index/packed`)."""
KEPT_PLANS = 1 << 10
"""Sizes of segments whose plans are kept; each merge makes another size."""
SPARING = 1.35
"""A plan with less memory may cost a query this many times the least."""


class TableLayout(NamedTuple):
    """What the probe kernel (`kernels/index/packed`) reads of T tables."""

    tables: NDArray[np.int64]  # (T, 4) rotation, bits, start of the directory, flips
    masks: NDArray[np.int64]
    """The flipped bits of each prefix, table after table, by their first bits."""
    groups: NDArray[np.int64]  # (T, 2^shard_bits + 1) where the masks with these first bits begin


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """T tables with disjoint prefixes of `prefix_bits[t]` bits; probes flip up to `flips` of them.

    The prefixes follow one another from the highest bit on. With `step` 0 there is no gap between them; otherwise
    each begins `step` bits after the one before. Table t is rotated so that its own prefix leads. `tables = 0` is
    the plan without tables: a plain scan, complete for every distance. Raises SettingsError if the numbers do not
    fit together.
    """

    tables: int
    prefix_bits: tuple[int, ...]
    flips: int
    step: int = 0

    def __post_init__(self) -> None:
        if self.tables != len(self.prefix_bits) or self.flips < 0:
            raise SettingsError(f"{self} is not a plan", "give one prefix a table and no negative flips")
        if sum(self.prefix_bits) > 64 or any(not MIN_BITS <= b <= MAX_BITS for b in self.prefix_bits):
            raise SettingsError(
                f"the prefixes {self.prefix_bits} do not fit into 64 bits",
                f"give each {MIN_BITS} to {MAX_BITS} bits, and all together at most 64",
            )
        if self.step and (max(self.prefix_bits, default=0) > self.step or self.tables * self.step > 64):
            raise SettingsError(
                f"prefixes of {self.prefix_bits} bits do not fit a step of {self.step}",
                "give a step that is at least as long as each prefix, and at most 64 bits for all tables",
            )

    @property
    def complete_for(self) -> int:
        """The greatest distance at which it misses no match."""
        return self.tables * (self.flips + 1) - 1 if self.tables else 64

    @property
    def rotations(self) -> tuple[int, ...]:
        """The bits by which each table is rotated to the left."""
        if self.step:
            return tuple(range(0, self.tables * self.step, self.step))
        return tuple(sum(self.prefix_bits[:t]) for t in range(self.tables))

    def flips_for(self, distance: int) -> tuple[int, ...]:
        """Return per table the flips that `distance` needs, -1 for an unneeded table.

        Raises SettingsError if the plan is not complete for `distance`.
        """
        if distance > self.complete_for:
            raise SettingsError(
                f"{self} is complete up to distance {self.complete_for}, not {distance}",
                "use more tables or more flips",
            )
        if not self.tables:
            return ()
        share, rest = divmod(distance + 1, self.tables)
        return tuple(share - 1 + (t < rest) for t in range(self.tables))

    def probes(self, distance: int | None = None) -> int:
        """Return the lookups a page: all prefixes of all tables with up to the needed number of flipped bits."""
        flips = self.flips_for(self.complete_for if distance is None else distance)
        return sum(ball_size(b, f) for b, f in zip(self.prefix_bits, flips, strict=True))

    def expected_candidates(self, entries: int, distance: int | None = None) -> float:
        """Return the values compared a page among `entries` random fingerprints."""
        if not self.tables:
            return float(entries)
        flips = self.flips_for(self.complete_for if distance is None else distance)
        shares = (ball_size(b, f) / (1 << b) for b, f in zip(self.prefix_bits, flips, strict=True))
        return entries * float(sum(shares))

    def nbytes(self, entries: int, distance: int) -> int:
        """Return the bytes of the tables and directories of `entries` distinct fingerprints."""
        if not self.tables:
            return 8 * entries
        used = sum(f >= 0 for f in self.flips_for(distance))
        each = 6 if min(self.prefix_bits[:used]) >= NARROW_BITS else 8
        return used * each * entries + 4 * sum(1 << b for b in self.prefix_bits[:used])

    def cost_ns(self, entries: int, distance: int) -> float:
        """Return about what a query costs among `entries` random fingerprints, in ns. For comparisons of plans."""
        if not self.tables:
            return SCANNED_NS * entries
        used, size = sum(f >= 0 for f in self.flips_for(distance)), self.nbytes(entries, distance)
        compared = self.expected_candidates(entries, distance)
        each = CACHED_NS if size < MAX_CACHED_BYTES else FETCHED_NS
        return used * TABLE_NS + self.probes(distance) * _probe_ns(size) + compared * each

    def layout(self, distance: int, shard_bits: int = 0) -> TableLayout:
        """Return what the probe kernel reads. The layout has no rows for tables that the distance does not need."""
        rows: list[tuple[int, ...]] = []
        masks: list[NDArray[np.int64]] = []
        groups: list[NDArray[np.int64]] = []
        at = directory = 0
        for rotation, bits, flips in zip(self.rotations, self.prefix_bits, self.flips_for(distance), strict=True):
            if flips < 0:
                continue
            own = _masks(bits, flips)
            first = own >> (bits - shard_bits)
            own = own[np.argsort(first, kind="stable")]
            groups.append(at + np.searchsorted(np.sort(first), np.arange((1 << shard_bits) + 1)))
            masks.append(own)
            rows.append((rotation, bits, directory, flips))
            at += len(own)
            directory += (1 << bits) + 1
        return TableLayout(
            np.array(rows, np.int64).reshape(len(rows), 4),
            np.concatenate([np.empty(0, np.int64), *masks]),
            np.array(groups, np.int64).reshape(len(rows), (1 << shard_bits) + 1),
        )


SCAN = Plan(0, (), 0)
"""The plan without tables, which compares every value."""


def ball_size(bits: int, flips: int) -> int:
    """Return how many values differ from one in at most `flips` of `bits` bits."""
    return sum(comb(bits, i) for i in range(flips + 1))


@cache
def _masks(bits: int, flips: int) -> NDArray[np.int64]:
    """Return all words of `bits` bits with at most `flips` ones, fewest first."""
    sets = (c for n in range(flips + 1) for c in combinations(range(bits), n))
    return np.array([sum(1 << i for i in c) for c in sets], np.int64)


def _probe_ns(size: int) -> float:
    """Return the ns of a lookup in tables of `size` bytes, within the caches and beyond (tests/bench)."""
    for limit, cost in ((1 << 23, 8.0), (1 << 25, 14.0), (1 << 27, 25.0), (1 << 30, 40.0)):
        if size < limit:
            return cost
    return 60.0


def plans_for(distance: int) -> list[Plan]:
    """Yield every plan that `choose` considers: complete for `distance`, with as few flips as possible."""
    found = [SCAN]
    for tables in range(1, min(MAX_TABLES, distance + 1) + 1):
        flips = -(-(distance + 1) // tables) - 1
        for bits in range(MIN_BITS, min(64 // tables, MAX_BITS) + 1):
            plan = Plan(tables, (bits,) * tables, flips)
            if plan.probes(distance) <= MAX_PROBES:
                found.append(plan)
    return found


@lru_cache(KEPT_PLANS)
def choose(distance: int, entries: int) -> Plan:
    """Return a complete plan for a distance (0 to 16) and about `entries` distinct fingerprints.

    Among the plans that are nearly as fast as the fastest it takes the one with the least memory. A directory is
    never much larger than its table. Raises SettingsError for a distance outside 0 to 16.
    """
    if not 0 <= distance <= MAX_DISTANCE:
        raise SettingsError(f"distance {distance} is out of range", f"give a distance from 0 to {MAX_DISTANCE}")
    fitting = [p for p in plans_for(distance) if not p.tables or 2 ** max(p.prefix_bits) <= 4 * entries]
    costs = {p: p.cost_ns(entries, distance) for p in fitting}
    most = SPARING * min(costs.values())
    cheap = (p for p in fitting if costs[p] <= most)
    return min(cheap, key=lambda p: (p.nbytes(entries, distance), costs[p], p.tables, p.prefix_bits))


MANY_ENTRIES: Final = 100_000_000
"""The number of entries for which the tables of a divided index are cut."""


@cache
def divided_plan(distance: int) -> Plan:
    """Return the plan by which the tables of a divided index are cut, at every size.

    Shards of one stream, and segments within a shard, must agree on which shard owns a value. So the number and the
    rotations of their tables are the same at every size. Only the length of the prefixes differs.
    """
    tables = choose(distance, MANY_ENTRIES).tables
    step = 64 // tables
    return Plan(tables, (min(step, MAX_BITS),) * tables, -(-(distance + 1) // tables) - 1, step)


@lru_cache(KEPT_PLANS)
def choose_divided(distance: int, entries: int, shards: int) -> Plan:
    """Return the cheapest plan for a segment of about `entries` in one of `shards`: `divided_plan` with shorter
    prefixes, or a scan."""
    whole = divided_plan(distance)
    total = entries * shards // whole.tables
    lengths = [bits for bits in range(MIN_BITS, whole.prefix_bits[0] + 1) if 2**bits <= 4 * entries]
    plans = [Plan(whole.tables, (bits,) * whole.tables, whole.flips, whole.step) for bits in lengths]
    costs = {SCAN: SCAN.cost_ns(entries, distance)}
    costs |= {plan: plan.cost_ns(total, distance) / shards for plan in plans}
    return min(costs, key=lambda plan: costs[plan])
