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
STORED_BYTES: Final = 19
"""Bytes a page beside the index: row 9, identity 10 (docs/design/state.md), for each page that a matcher holds."""
JUDGE_BYTES: Final = 50
"""Bytes of a live page on the judge: 25 of rows, directory and clusters, if a fifth of the pages are like others.
While a snapshot is written, its copy of all changed blocks takes up to as much again."""
STORED_US: Final = 8.0
"""Microseconds beside the index for each page that a shard holds (`python -m tests.bench.same_verdicts`)."""
JUDGE_US: Final = 20.0
"""Microseconds of a page on the judge, without its answers (measured in the same way)."""
ANSWER_US: Final = 50.0
"""Microseconds of an answer on the judge, of however few pages (`tests/bench/RESULTS.md`)."""
ANSWER_PAGES: Final = 800
"""The pages of an answer while the judge is busy: the fewer, the more answers there are."""
FRAME_BYTES: Final = 170
"""Bytes of a page in `fingerprints`: 116 in columns, and its id and URL."""


class FleetRow(msgspec.Struct, frozen=True):
    """What an index in so many shards takes, with one shard on each matcher."""

    shards: int
    held: float
    """The share of all pages that each shard holds."""
    shard_bytes: int
    """The memory of one matcher: its part of the index, and the rows and identities of its pages."""
    all_bytes: int
    """The memory of all matchers."""
    index_us: float
    """Microseconds of a page in the index of one shard, on one core."""
    pages_a_second: int
    """Pages that one matcher answers a second, on one core."""
    judge_pages_a_second: int
    """Pages that the judge beside so many shards judges a second: it takes an answer from each of them."""
    fits: bool


class FleetReport(msgspec.Struct, frozen=True):
    """The fleets of matchers for a number of live pages, and the judge and the log beside them."""

    pages: int
    distance: int
    tables: int
    lookups: int
    judges: int
    """Prefixes with a judge each, of at most MAX_PAGES live pages."""
    judge_bytes: int
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

    There are T tables for each of L lookups. So each of N shards holds the share h = 1 - (1 - 1/N)^(T L) of all
    entries. Each held entry takes its row, its sketch, and for each lookup a place in the first table. It takes
    4 more bytes for the order of each further lookup. Every other table has 1/N of all entries.
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
    """Return the fleets of 2 to 256 shards for so many live pages.

    More pages than MAX_PAGES are divided among prefixes; a row is then for one prefix. Raises UsageError if no
    fleet fits into `memory_bytes` a matcher.
    """
    judges = -(-pages // MAX_PAGES)
    pages_each = -(-pages // judges)
    counts = [1 << bits for bits in range(1, MAX_SHARDS.bit_length())]
    rows = [_row(pages_each, shards, distance, each, memory_bytes, speed) for shards in counts]
    if not any(row.fits for row in rows):
        share = f" ({pages:,}, divided among {judges} prefixes)" if judges > 1 else ""
        raise UsageError(
            f"{pages_each:,} pages{share} on {MAX_SHARDS} shards take {rows[-1].shard_bytes:,} bytes a matcher",
            "give --memory more, keep fewer pages (a window), or divide them among more prefixes",
        )
    return FleetReport(
        pages=pages,
        distance=distance,
        tables=divided_plan(distance).tables,
        lookups=each.lookups,
        judges=judges,
        judge_bytes=JUDGE_BYTES * pages_each,
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
        judge_pages_a_second=round(1e6 / (JUDGE_US + shards * ANSWER_US / ANSWER_PAGES)),
        fits=memory_bytes is None or size <= memory_bytes,
    )
