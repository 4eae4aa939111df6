"""Computes what one shard of the index takes, and how many matchers a number of pages needs."""

from __future__ import annotations

from typing import Final

import msgspec

from simstream.errors import UsageError
from simstream.index.plan import choose_divided, divided_plan
from simstream.index.shard import MAX_SHARDS
from simstream.tools.plan.costs import MAX_PAGES, PageLookups
from simstream.tools.plan.speed import MachineSpeed

ROW_BYTES: Final = 4
WORD_BYTES: Final = 8
ORDER_BYTES: Final = 4
SKETCH_WORDS: Final = 4
"""The sketch of the recipe `default`."""
STORED_BYTES: Final = 24
"""Bytes a page beside the index, on a matcher for each page that it holds, and on the judge for each live page: row
13, identity 11 (docs/design/state.md)."""
STORED_US: Final = 8.0
"""Microseconds beside the index for each page that a shard holds (`python -m tests.bench.same_verdicts`)."""
JUDGE_US: Final = 20.0
"""Microseconds of a page on the judge (the same)."""
FRAME_BYTES: Final = 170
"""Bytes of a page in `fingerprints`: 116 in columns, and its id and URL."""
ANSWER_BYTES: Final = 27
"""Bytes of a page's match in the answer of a shard that found it."""


class FleetRow(msgspec.Struct, frozen=True):
    """An index on so many shards, with one shard a matcher."""

    shards: int
    held: float
    """The share of all pages that each shard holds."""
    shard_bytes: int
    """The memory of one matcher: its part of the index, and the rows and identities of its pages."""
    all_bytes: int
    index_us: float
    """Microseconds of a page in the index of one shard, on one core."""
    pages_a_second: int
    """Pages that one matcher answers a second, on one core."""
    fits: bool


class FleetReport(msgspec.Struct, frozen=True):
    """The fleets for a number of live pages, and what surrounds them."""

    pages: int
    distance: int
    tables: int
    lookups: int
    judges: int
    """Spaces (prefixes) with a judge each, since a judge numbers at most MAX_PAGES live pages."""
    judge_bytes: int
    judge_pages_a_second: int
    log_bytes_a_page: int
    rows: list[FleetRow]

    @property
    def chosen(self) -> FleetRow | None:
        """The smallest fleet that fits."""
        return next((row for row in self.rows if row.fits), None)


def held_share(shards: int, distance: int, lookups: int) -> float:
    """Return the share of all entries that a shard holds: those with a prefix in its range in any table."""
    places = divided_plan(distance).tables * lookups
    return 1.0 - (1.0 - 1.0 / shards) ** places


def shard_bytes(entries: int, shards: int, distance: int, lookups: int, sketch_words: int = SKETCH_WORDS) -> float:
    """Return the bytes of the index of one of so many shards of `entries` entries.

    With T tables for each of L lookups, a shard of N holds the share h = 1 - (1 - 1/N)^(T L) of all entries. Each
    of these has its row, its sketch, for each lookup a place in the first table, and for each further lookup 4
    bytes for the order. The other tables have a share of 1/N each.
    """
    share = held_share(shards, distance, lookups)
    held = share * entries
    plan = choose_divided(distance, max(1, int(held)), shards) if shards > 1 else divided_plan(distance)
    own = ROW_BYTES + WORD_BYTES * sketch_words + ORDER_BYTES * (lookups - 1)
    directories = plan.nbytes(0, distance)
    each = (plan.nbytes(1, distance) - directories) / max(1, plan.tables)
    others = lookups * max(0, plan.tables - 1) * each * entries / shards
    return held * (own + lookups * each) + others + lookups * directories


def weigh_fleets(
    pages: int, distance: int, each: PageLookups, memory_bytes: int | None, speed: MachineSpeed
) -> FleetReport:
    """Return the fleets of 2 to 256 shards for so many live pages. More pages than one judge numbers are divided
    among spaces, and a row is for one of them. Raises UsageError if no fleet fits into `memory_bytes` a matcher."""
    judges = -(-pages // MAX_PAGES)
    space = -(-pages // judges)
    counts = [1 << bits for bits in range(1, MAX_SHARDS.bit_length())]
    rows = [_row(space, shards, distance, each, memory_bytes, speed) for shards in counts]
    if not any(row.fits for row in rows):
        raise UsageError(
            f"{space:,} pages on {MAX_SHARDS} shards take {rows[-1].shard_bytes:,} bytes a matcher",
            "give --memory more, keep fewer pages (a window), or divide them among several prefixes",
        )
    return FleetReport(
        pages=pages,
        distance=distance,
        tables=divided_plan(distance).tables,
        lookups=each.lookups,
        judges=judges,
        judge_bytes=STORED_BYTES * space,
        judge_pages_a_second=round(1e6 / JUDGE_US),
        log_bytes_a_page=FRAME_BYTES,
        rows=rows,
    )


def _row(
    pages: int, shards: int, distance: int, each: PageLookups, memory_bytes: int | None, speed: MachineSpeed
) -> FleetRow:
    lookups, share = each.lookups, held_share(shards, distance, each.lookups)
    words = SKETCH_WORDS + each.fingerprints - 1
    size = shard_bytes(pages, shards, distance, lookups, words) + share * pages * STORED_BYTES
    plan = choose_divided(distance, max(1, int(share * pages)), shards)
    costs = speed.at(plan.nbytes(pages // shards, distance))
    probes = plan.probes(distance) / shards * costs.probe_ns
    compared = plan.expected_candidates(pages, distance) / shards * costs.candidate_ns
    index_us = lookups * (plan.tables * costs.table_ns + probes + compared) / 1000
    return FleetRow(
        shards=shards,
        held=share,
        shard_bytes=round(size),
        all_bytes=round(size * shards),
        index_us=index_us,
        pages_a_second=round(1e6 / (index_us + share * STORED_US)),
        fits=memory_bytes is None or size <= memory_bytes,
    )
