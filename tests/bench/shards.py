"""Bench: what a shard of the index costs beside one index of all: time a page, and bytes.

    python -m tests.bench.shards                                  # 20 million entries, 8 shards
    python -m tests.bench.shards --entries 1000000 --shards 4

Random keys of the recipe `default`: a fingerprint, and a sketch whose first word is looked up, too. Half of the
pages asked for are near an entry. All shards together must answer as the one index does, before a clock starts. The
shards are built and asked one after another, so the time is that of one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from time import perf_counter
from typing import NamedTuple

import click
import numpy as np

from simstream.index.index import Index
from simstream.index.keys import KeyColumns
from simstream.index.plan import divided_plan
from simstream.index.shard import WHOLE, Shard
from simstream.judge.shard_matcher import owned_keys
from simstream.tools.plan.shards import shard_bytes
from tests.bench.measure import against, line, title

WORDS = 4
DRAWS = 2
DISTANCE = 8
AGREEMENT = 205
BATCH = 512
Pair = tuple[int, int]


class ShardCost(NamedTuple):
    """The cost of one index: microseconds a page, bytes, entries, and what it found."""

    microseconds: float
    nbytes: int
    entries: int
    found: set[Pair]


def keys(entries: int, seed: int = 1) -> KeyColumns:
    """Random keys."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**64, (entries, 1 + WORDS), dtype=np.uint64)
    return KeyColumns(np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1:]), np.zeros(0, np.uint8))


def near(known: KeyColumns, count: int, seed: int = 2) -> KeyColumns:
    """Pages to ask for: half of them copies of known keys with up to DISTANCE bits flipped, half strangers."""
    rng = np.random.default_rng(seed)
    asked = keys(count, seed)
    chosen = rng.integers(0, len(known.fingerprints), count // 2)
    asked.fingerprints[: count // 2] = known.fingerprints[chosen]
    asked.sketches[: count // 2] = known.sketches[chosen]
    for page in range(count // 2):
        draw = page % DRAWS
        column = asked.fingerprints if draw == 0 else asked.sketches[:, 0]
        other = asked.sketches[:, 0] if draw == 0 else asked.fingerprints
        other[page] = rng.integers(0, 2**64, dtype=np.uint64)
        for bit in rng.choice(64, page % (DISTANCE + 1), replace=False):
            column[page] ^= np.uint64(1) << np.uint64(bit)
    return asked.at(rng.permutation(count))


def cost(known: KeyColumns, asked: KeyColumns, shard: Shard, agreement: int) -> ShardCost:
    """Build the index of a shard, ask it, and time it."""
    numbers = np.arange(len(known.fingerprints), dtype=np.uint32)
    if shard.count > 1:
        numbers = numbers[owned_keys(shard, known, DRAWS, DISTANCE)]
    index = Index(None, WORDS, DISTANCE, agreement, further_draws=DRAWS - 1, shard=shard)
    with closing(index):
        index.add(numbers, known.fingerprints[numbers], known.sketches[numbers], None, None)  # one segment
        found = ask(index, asked)
        size = index.nbytes()
        began = perf_counter()
        ask(index, asked)
        took = perf_counter() - began
    held = sum(size.values()) - size["memtable"]
    return ShardCost(took / len(asked.fingerprints) * 1e6, held, len(numbers), found)


def ask(index: Index, asked: KeyColumns) -> set[Pair]:
    """(page, entry) of all matches, asked in batches as a judge asks."""
    found: set[Pair] = set()
    for at in range(0, len(asked.fingerprints), BATCH):
        some = asked.at(slice(at, at + BATCH))
        matches = index.query_apart(some.fingerprints, some.sketches)
        pages = np.repeat(np.arange(at, at + matches.done), np.diff(matches.starts))
        found.update(zip(pages.tolist(), matches.entry.tolist(), strict=True))
    return found


def measure(entries: int, shards: int, pages: int, agreement: int) -> tuple[ShardCost, Sequence[ShardCost]]:
    """One index of all, then each shard. Raises AssertionError if the shards do not answer as it does."""
    known = keys(entries)
    asked = near(known, pages)
    whole = cost(known, asked, WHOLE, agreement)
    parts = [cost(known, asked, Shard(number, shards), agreement) for number in range(shards)]
    together = set().union(*(part.found for part in parts))
    assert together == whole.found, "the shards do not find what one index finds"
    assert len(whole.found) >= pages // 3, "most near pages have a match"
    return whole, parts


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--entries", default=20_000_000, show_default=True, help="Entries of the index.")
@click.option("--shards", default=8, show_default=True, help="A power of two.")
@click.option("--pages", default=20_000, show_default=True, help="Pages to ask for.")
def main(entries: int, shards: int, pages: int) -> None:
    """What a shard costs beside one index of all."""
    plan = divided_plan(DISTANCE)
    title(
        "shards",
        f"{entries:,} random entries, k = {DISTANCE}, {DRAWS} lookups, {plan.tables} tables, {shards} shards",
    )
    whole, parts = measure(entries, shards, pages, agreement=0)
    busiest, total = max(part.microseconds for part in parts), sum(part.microseconds for part in parts)
    line(f"one index: {whole.microseconds:.1f} us a page, {whole.nbytes / entries:.1f} bytes an entry")
    line("shards: " + ", ".join(f"{part.microseconds:.1f}" for part in parts) + " us a page")
    size = max(part.nbytes for part in parts)
    formula = shard_bytes(entries, shards, DISTANCE, DRAWS, WORDS)
    line(f"the largest shard: {size / 1e6:,.0f} MB, {max(p.entries for p in parts) / entries:.1%} of the entries")
    against("the busiest shard, of one index", busiest / whole.microseconds, "at most 0.167")
    against("all shards, of one index", total / whole.microseconds, "at most 1.3")
    against("the largest shard, of the formula", size / formula, "0.9 to 1.1")


if __name__ == "__main__":
    main()
