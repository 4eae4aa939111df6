"""What a verdict means for a page's links. Knows nothing of Scrapy."""

from __future__ import annotations

from typing import NamedTuple

from stream.crawlers.options import Options
from stream.model import Verdict


class Decision(NamedTuple):
    """What becomes of one page's links and items."""

    duplicate: bool
    """Whether the page is another's near duplicate."""
    chain: int
    """How many near duplicates in a row lead to its links, itself included."""
    drop: bool = False
    """Its links are dropped."""
    priority: int = 0
    """Added to the priority of its links; below 0 they wait, or are tried."""


def is_duplicate(verdict: Verdict) -> bool:
    """Whether a page is much the same as an older one; if it is as it was, whether its cluster has an older one."""
    if verdict.verdict == "unchanged":
        return verdict.canonical != verdict.id
    return verdict.verdict == "near_duplicate"


def is_comparable(verdict: Verdict) -> bool:
    """Whether a page has enough text to be compared."""
    return verdict.verdict not in ("too_short", "unreadable")


def decide(verdict: Verdict | None, chain: int, options: Options) -> Decision:
    """`chain`: how many near duplicates in a row led to the page. Without a verdict the page is kept.

    A page with nothing to compare (a bare list of links) neither counts nor ends a chain; any other ends it.
    """
    if verdict is None or not is_comparable(verdict):
        return Decision(False, chain)
    if not is_duplicate(verdict):
        return Decision(False, 0)
    chain += 1
    if options.links == "follow" or chain <= options.duplicate_depth:
        return Decision(True, chain)
    if options.links == "drop":
        return Decision(True, chain, drop=True)
    return Decision(True, chain, priority=min(-1, options.priority * (chain - options.duplicate_depth)))
