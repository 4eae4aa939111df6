"""Decides by a verdict whether a page's links are followed; `crawlers/link_router` decides about each link."""

from __future__ import annotations

from typing import NamedTuple

from simstream.crawlers.options import CrawlOptions
from simstream.model import INCOMPARABLE_VERDICTS, Verdict, VerdictKind


class LinkDecision(NamedTuple):
    """The decision about one page's links and items."""

    duplicate: bool
    """Whether this crawl has seen the page's text at another address."""
    chain: int
    """The number of near duplicates in a row that lead to its links, with itself."""
    drop: bool = False
    """Whether its links are dropped."""
    priority: int = 0
    """The number that is added to the priority of its links; if it is below 0, they wait or are tried."""


def is_duplicate(verdict: Verdict) -> bool:
    """Return whether a page is much the same as an older page.

    For `unchanged`: whether its cluster has an older page.
    """
    if verdict.verdict == VerdictKind.UNCHANGED:
        return verdict.canonical != verdict.id
    return verdict.verdict == VerdictKind.NEAR_DUPLICATE


def is_comparable(verdict: Verdict) -> bool:
    """Return whether a page has enough text to be compared."""
    return verdict.verdict not in INCOMPARABLE_VERDICTS


def decide(is_copy: bool | None, chain: int, options: CrawlOptions) -> LinkDecision:
    """Decide about a page. `chain`: the copies in a row that led to it. Without a verdict, keep the page.

    `is_copy`: None for a page without a verdict, or with nothing to compare, such as a list of links. It neither
    counts nor ends a chain. A page that is no copy ends it.
    """
    if is_copy is None:
        return LinkDecision(False, chain)
    if not is_copy:
        return LinkDecision(False, 0)
    chain += 1
    if options.links == "follow" or chain <= options.duplicate_depth:
        return LinkDecision(True, chain)
    if options.links == "drop":
        return LinkDecision(True, chain, drop=True)
    return LinkDecision(True, chain, priority=min(-1, options.priority * (chain - options.duplicate_depth)))
