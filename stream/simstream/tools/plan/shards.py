"""Computes what one shard of the index takes, and how many matchers a number of pages needs."""

from __future__ import annotations

from typing import Final

from simstream.index.plan import choose_divided, divided_plan

ROW_BYTES: Final = 4
WORD_BYTES: Final = 8
ORDER_BYTES: Final = 4


def held_share(shards: int, distance: int, lookups: int) -> float:
    """Return the share of all entries that a shard holds: those with a prefix in its range in any table."""
    places = divided_plan(distance).tables * lookups
    return 1.0 - (1.0 - 1.0 / shards) ** places


def shard_bytes(entries: int, shards: int, distance: int, lookups: int, sketch_words: int) -> float:
    """Return the bytes of the index of one of so many shards of `entries` entries.

    n entries of a stream with T tables for each of L lookups, on N shards. A shard has the share
    h = 1 - (1 - 1/N)^(T L) of all. Each of these has its row, its sketch, and for each lookup a place in the first
    table; for each further lookup 4 bytes for the order. The other tables have n/N entries each.
    """
    share = held_share(shards, distance, lookups)
    held = share * entries
    plan = choose_divided(distance, max(1, int(held)), shards) if shards > 1 else divided_plan(distance)
    own = ROW_BYTES + WORD_BYTES * sketch_words + ORDER_BYTES * (lookups - 1)
    each = plan.nbytes(1, distance) - plan.nbytes(0, distance)
    table = each / max(1, plan.tables)
    directories = lookups * plan.nbytes(0, distance)
    others = lookups * (plan.tables - 1) * table * entries / shards
    return held * (own + lookups * table) + others + directories
