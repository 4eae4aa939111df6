"""Decides by a verdict whether a page's links are followed. Knows nothing of Scrapy."""

from __future__ import annotations

from typing import NamedTuple

from simstream.crawlers.options import CrawlOptions
from simstream.model import Verdict


class LinkDecision(NamedTuple):
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


def decide(verdict: Verdict | None, chain: int, options: CrawlOptions) -> LinkDecision:
    """`chain`: how many near duplicates in a row led to the page. Without a verdict the page is kept.

    A page with nothing to compare (a bare list of links) neither counts nor ends a chain; any other ends it.
    """
    if verdict is None or not is_comparable(verdict):
        return LinkDecision(False, chain)
    if not is_duplicate(verdict):
        return LinkDecision(False, 0)
    chain += 1
    if options.links == "follow" or chain <= options.duplicate_depth:
        return LinkDecision(True, chain)
    if options.links == "drop":
        return LinkDecision(True, chain, drop=True)
    return LinkDecision(True, chain, priority=min(-1, options.priority * (chain - options.duplicate_depth)))
