"""Computes the cost of each table design: candidates, probes, bytes, microseconds a query."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from simstream.errors import UsageError
from simstream.index.plan import choose
from simstream.tools.plan.designs import TableDesign, designs
from simstream.tools.plan.speed import MachineSpeed, SizeCosts, measure

STATE_BYTES: Final = 55
"""Bytes a page beside the tables: row 4, sketch 32, state 9, identity 10 (docs/design/state.md)."""
ORDER_BYTES: Final = 4
"""Bytes a page for the order of each further draw."""
MAX_PAGES: Final = 1_600_000_000
"""The most pages to plan for one judge: the limit of SimstreamPagesNearLimit. A judge has 2^31 - 2 numbers, and
pages that left keep some."""


UNKNOWN: Final = MachineSpeed(0.0, 0.0, (SizeCosts(1, 0.0, 0.0, 0.0),))


class PlanRow(msgspec.Struct, frozen=True):
    """One design for a number of pages: first its shape, then its costs."""

    name: str
    tables: int
    prefix_bits: tuple[int, ...]
    flips: tuple[int, ...]
    probes: int
    candidates: float
    """Expected among random fingerprints; similar pages bring more."""
    table_bytes: int
    all_bytes: int
    """The tables, and all else that the service keeps of each page."""
    microseconds: float
    """The time of a query on one core."""
    fits: bool
    serves: bool
    """Whether the service would build it."""


class PageLookups(NamedTuple):
    """What a page is looked up by, as in a recipe."""

    fingerprints: int = 1
    sketch_lookups: int = 0

    @property
    def lookups(self) -> int:
        """The number of lookups of a page."""
        return self.fingerprints + self.sketch_lookups


class PlanReport(msgspec.Struct, frozen=True):
    """All designs for a number of pages, and the measured speeds behind their costs.

    The costs are those of all lookups of a page.
    """

    pages: int
    distance: int
    fingerprints: int
    sketch_lookups: int
    memory_bytes: int | None
    measured: MachineSpeed
    designs: list[PlanRow]

    @property
    def served(self) -> PlanRow:
        """The design that the service would build."""
        return next(row for row in self.designs if row.serves)

    @property
    def fastest(self) -> PlanRow:
        """The fastest design that the service can build and that fits; `weigh` says which designs there are."""
        return min((row for row in self.designs if row.fits), key=lambda row: row.microseconds)


def weigh_here(pages: int, distance: int, memory_bytes: int | None, each: PageLookups) -> PlanReport:
    """Call `weigh` with the speed of this machine, which is measured if that is useful. Takes about a second."""
    weigh(pages, distance, memory_bytes, UNKNOWN, each)
    flips = max(choose(distance, pages).flips_for(distance), default=0)
    return weigh(pages, distance, memory_bytes, measure(distance, flips), each)


def weigh(
    pages: int, distance: int, memory_bytes: int | None, speed: MachineSpeed, each: PageLookups
) -> PlanReport:
    """Return every design for a number of pages at a distance of 0 to 16.

    Errors: SettingsError for another distance; UsageError if no design fits into the memory.
    """
    chosen = choose(distance, pages)
    rows = [
        _row(design, pages, memory_bytes, speed, each, design.serves == chosen)
        for design in designs(distance, pages)
    ]
    if memory_bytes is not None and not any(row.fits for row in rows):
        least = min(rows, key=lambda row: row.all_bytes)
        raise UsageError(
            f"no design for {pages:,} pages fits into {memory_bytes:,} bytes, as even {least.name} takes"
            f" {least.all_bytes:,}",
            f"give --memory {_gb(least.all_bytes)} or more, keep fewer pages (a window), or divide them"
            f" among {-(-least.all_bytes // memory_bytes)} machines",
        )
    return PlanReport(pages, distance, *each, memory_bytes, speed, rows)


def _row(
    design: TableDesign, pages: int, memory_bytes: int | None, speed: MachineSpeed, each: PageLookups, serves: bool
) -> PlanRow:
    count = each.lookups
    table_bytes = count * design.nbytes(pages) + (count - 1) * ORDER_BYTES * pages
    all_bytes = table_bytes + (STATE_BYTES + 8 * (each.fingerprints - 1)) * pages
    return PlanRow(
        name=design.name,
        tables=len(design.masks),
        prefix_bits=design.bits,
        flips=design.flips,
        probes=count * design.probes(),
        candidates=count * design.expected_candidates(pages),
        table_bytes=table_bytes,
        all_bytes=all_bytes,
        microseconds=count * query_ns(design, pages, speed) / 1000,
        fits=memory_bytes is None or all_bytes <= memory_bytes,
        serves=serves,
    )


def query_ns(design: TableDesign, pages: int, speed: MachineSpeed) -> float:
    """Return the time of a query on one core, computed from the measured costs of its parts."""
    if not design.masks:
        return pages * speed.scanned_ns
    costs = speed.at(design.nbytes(pages))
    probe = costs.probe_ns + design.searched_steps(pages) * speed.halving_ns
    candidates = design.expected_candidates(pages) * costs.candidate_ns
    return len(design.masks) * costs.table_ns + design.probes() * probe + candidates


def _gb(number: int) -> str:
    """Return bytes as GB, rounded up to a tenth."""
    return f"{-(-number * 10 >> 30) / 10:.1f}GB"
