"""Lists table designs: the bits of each table's prefix, and how many a probe flips.

The paper cuts the 64 bits into m blocks and makes a table for each choice of r of them, led by those blocks; its
design of 16 tables cuts twice. The designs of simstream have disjoint prefixes (r = 1) and uneven flips, see
`index/plan`; those are the only ones that the service builds.

Source: Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling (2007), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, combinations
from typing import Final

from simstream.errors import SettingsError
from simstream.index.plan import MAX_DISTANCE, NARROW_BITS, Plan, ball_size, choose, plans_for

ALL: Final = (1 << 64) - 1
MAX_DIRECTORY_BITS: Final = 24
"""A directory has a place for each value of the first so many bits of a prefix; other bits are searched."""


@dataclass(frozen=True, slots=True)
class TableDesign:
    """A set of tables. `masks[t]` has the bits of table t's prefix, `flips[t]` how many of them a probe may change.

    Table t finds a pair if at most `flips[t]` of the bits of `masks[t]` differ. Without tables it is a scan.
    """

    name: str
    masks: tuple[int, ...]
    flips: tuple[int, ...]
    serves: Plan | None = None
    """The index's plan for this design; None if the index cannot build it."""

    @property
    def bits(self) -> tuple[int, ...]:
        """The length of each table's prefix."""
        return tuple(mask.bit_count() for mask in self.masks)

    def probes(self) -> int:
        """Return the number of lookups of a query: each prefix with up to so many of its bits flipped."""
        return sum(ball_size(bits, flips) for bits, flips in zip(self.bits, self.flips, strict=True))

    def expected_candidates(self, entries: int) -> float:
        """Return the number of fingerprints that a query is compared with, among so many random fingerprints."""
        if not self.masks:
            return float(entries)
        shares = (ball_size(b, f) / 2**b for b, f in zip(self.bits, self.flips, strict=True))
        return entries * float(sum(shares))

    def searched_steps(self, entries: int) -> int:
        """Return the number of halvings that a probe needs after its directory, for the longest prefix."""
        return max((_steps(bits, entries) for bits in self.bits), default=0)

    def nbytes(self, entries: int) -> int:
        """Return the bytes of tables and directories: 6 an entry and table, 8 if a prefix has under 16 bits."""
        if not self.masks:
            return 8 * entries
        each = 6 if min(self.bits) >= NARROW_BITS else 8
        return len(self.masks) * each * entries + sum(4 << _directory_bits(b, entries) for b in self.bits)


def designs(distance: int, entries: int) -> list[TableDesign]:
    """Return the scan, the best design of each number of tables that the index builds, and the paper's four.

    All are complete for `distance`. The design that the index takes is among them.
    Errors: SettingsError for a distance outside 0 to 16.
    """
    chosen = choose(distance, entries)
    by_tables = {chosen.tables: chosen}
    for plan in plans_for(distance):
        best = by_tables.get(plan.tables)
        affordable = not plan.tables or 2 ** max(plan.prefix_bits) <= 4 * entries
        if affordable and plan.tables != chosen.tables:
            cheaper = best is None or plan.cost_ns(entries, distance) < best.cost_ns(entries, distance)
            by_tables[plan.tables] = plan if cheaper or best is None else best
    own = [_of_plan(by_tables[tables], distance) for tables in sorted(by_tables)]
    paper = paper_designs(distance)
    names = {(design.masks, design.flips): design.name for design in paper}
    found = []
    for design in own:
        same = names.pop((design.masks, design.flips), None)
        found.append(replace(design, name=f"{design.name} ({same})") if same else design)
    return [*found, *(design for design in paper if design.name in names.values())]


def paper_designs(distance: int) -> list[TableDesign]:
    """Return the paper's designs of 4, 10, 16 and 20 tables, with as many flips as `distance` needs."""
    if not 0 <= distance <= MAX_DISTANCE:
        raise SettingsError(f"the distance is {distance}", f"give a distance from 0 to {MAX_DISTANCE}")
    twice = nested(4, 4)
    flips = distance // 4 + (distance - distance // 4) // 4
    return [
        blocks("paper's 4", 4, 1, distance),
        blocks("paper's 10", 5, 2, distance),
        TableDesign("paper's 16", twice, (flips,) * len(twice)),
        blocks("paper's 20", 6, 3, distance),
    ]


def blocks(name: str, cut: int, leading: int, distance: int) -> TableDesign:
    """Return a table for each choice of `leading` of `cut` blocks, with the fewest flips for `distance`."""
    masks = tuple(sum(chosen) for chosen in combinations(cut_into(cut, ALL), leading))
    return TableDesign(name, masks, (least_flips(cut, leading, distance),) * len(masks))


def least_flips(cut: int, leading: int, distance: int) -> int:
    """Return the flips that a table for each choice of `leading` of `cut` blocks needs for `distance`.

    Wherever the differing bits are, the r blocks with the fewest have no more than this together:
    r q + max(0, s - (m - r)) with k = q m + s.
    """
    share, rest = divmod(distance, cut)
    return leading * share + max(0, rest - (cut - leading))


def nested(first: int, second: int) -> tuple[int, ...]:
    """Return prefixes of one of `first` blocks and one of `second` blocks of all other bits."""
    return tuple(block | part for block in cut_into(first, ALL) for part in cut_into(second, ALL & ~block))


def cut_into(count: int, mask: int) -> list[int]:
    """Cut the bits of a mask into `count` runs, as even as possible, the longer first, from the highest bit on."""
    places = [place for place in reversed(range(64)) if mask >> place & 1]
    share, rest = divmod(len(places), count)
    ends = list(accumulate(share + (number < rest) for number in range(count)))
    return [sum(1 << place for place in places[end - share - (n < rest) : end]) for n, end in enumerate(ends)]


def _of_plan(plan: Plan, distance: int) -> TableDesign:
    """Return the design of the index's plan, without tables that the distance does not need."""
    masks = []
    for start, bits in zip(plan.rotations, plan.prefix_bits, strict=True):
        masks.append(((1 << bits) - 1) << (64 - start - bits))
    used = [(mask, flips) for mask, flips in zip(masks, plan.flips_for(distance), strict=True) if flips >= 0]
    name = f"{len(used)} x {plan.prefix_bits[0]} bits" if used else "scan"
    return TableDesign(name, tuple(mask for mask, _ in used), tuple(flips for _, flips in used), plan)


def _directory_bits(bits: int, entries: int) -> int:
    """Return the bits of a directory: it is never much larger than its entries."""
    return min(bits, MAX_DIRECTORY_BITS, max(1, 4 * entries).bit_length() - 1)


def _steps(bits: int, entries: int) -> int:
    """Return the halvings under one place of the directory, until one prefix of `bits` bits is left."""
    led = _directory_bits(bits, entries)
    return 0 if led == bits else max(0, (entries >> led).bit_length())
