"""Finds the patterns: parts of addresses that only ever made copies of a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from simstream.tools.patterns.counting import PatternCounts, count_left_out, count_replaced, places_of
from simstream.tools.patterns.pattern import AddressPattern, LearnedPattern, PartKind, PartName, PatternSet, unique
from simstream.tools.patterns.seen_pages import SeenPages, SitePages


class PatternLearner:
    """Learns from the pages of one or more logs or runs."""

    def __init__(self, least: int, earlier: Iterable[LearnedPattern] = ()) -> None:
        """`least`: the originals that a pattern needs. `earlier` patterns stay, unless a page contradicts them."""
        self._least = least
        self.nearest: tuple[int, AddressPattern] | None = None
        """Of the patterns that only lack originals: the greatest number of originals, and its pattern."""
        self._earlier = {learned.pattern: learned for learned in earlier}
        self._wanted = {(each.site, part) for each in self._earlier for part in _segments(each)}

    def learn(self, runs: Iterable[SeenPages]) -> list[LearnedPattern]:
        """Return the patterns without an exception, each with enough originals, in a fixed order.

        Cost: about 50 us a page. The memory beside the pages is part of `seen_pages.PAGE_BYTES`.
        """
        self.nearest = None
        by_site: dict[str, list[SitePages]] = {}
        for number, run in enumerate(runs):
            for pages in run.sites(number):
                by_site.setdefault(pages.site, []).append(pages)
        found: list[LearnedPattern] = []
        kept = dict(self._earlier)
        for site, parts in by_site.items():
            counted = self._count(site, parts)
            found += _chosen(counted, self._least)
            fewer = [(counts.originals, pattern) for pattern, counts in counted.items() if not counts.exceptions]
            fewer = [one for one in fewer if 0 < one[0] < self._least]
            self.nearest = max([*fewer, *([self.nearest] if self.nearest else [])], default=None)
            for pattern, counts in counted.items():
                if counts.exceptions:
                    kept.pop(pattern, None)
                    kept.pop(_turned(pattern), None)
        for learned in found:
            kept.pop(_turned(learned.pattern), None)
        return unique([*kept.values(), *found])

    def _count(self, site: str, runs: list[SitePages]) -> dict[AddressPattern, PatternCounts]:
        """Count what all runs have shown about the parts that have enough pages."""
        places = [places_of(pages) for pages in runs]
        total: dict[PartName, int] = {}
        for one in places:
            for part, numbers in one.items():
                total[part] = total.get(part, 0) + len(numbers)
        known = {part for part, pages in total.items() if pages >= self._least or (site, part) in self._wanted}
        order = {part.name: (-total[part], part.name) for part in known if part.kind is PartKind.SEGMENT}
        """The segments that the most pages have come first; of as many, the first by alphabet."""
        counted: dict[AddressPattern, PatternCounts] = {}
        for pages, one in zip(runs, places, strict=True):
            of_known = {part: found for part, found in one.items() if part in known}
            for pattern, counts in (*count_left_out(pages, of_known), *count_replaced(pages, of_known, order)):
                counted.setdefault(pattern, PatternCounts()).add(counts)
        return counted


def fetches_saved(patterns: Iterable[LearnedPattern], runs: Iterable[SeenPages]) -> int:
    """Return how many pages of the runs had the plain address of another page, by all patterns together."""
    known = PatternSet(learned.pattern for learned in patterns)
    saved = 0
    for run in runs:
        for site in run.sites():
            plains = (known.plain(site.site + rest) for rest in site.rests) if site.site in known else ()
            found = [hash(plain.text) for plain in plains if plain is not None]
            saved += len(found) - len(set(found))
    return saved


def _segments(pattern: AddressPattern) -> Iterator[PartName]:
    """Yield the parts whose pages say something about a pattern."""
    yield PartName(pattern.kind, pattern.name)
    if pattern.to:
        yield PartName(pattern.kind, pattern.to)


def _turned(pattern: AddressPattern) -> AddressPattern:
    """Return the pattern that replaces the other one of two segments."""
    return AddressPattern(pattern.site, pattern.kind, pattern.to, pattern.name, pattern.below)


def _chosen(counted: dict[AddressPattern, PatternCounts], least: int) -> Iterator[LearnedPattern]:
    """Yield the patterns that hold; of a pattern that holds for the whole site not those of its sections."""
    good = {
        pattern: counts
        for pattern, counts in counted.items()
        if not counts.exceptions and counts.originals >= least
    }
    for pattern, counts in good.items():
        if not pattern.below or AddressPattern(pattern.site, pattern.kind, pattern.name, pattern.to) not in good:
            fields = msgspec.structs.asdict(pattern)
            yield LearnedPattern(**fields, pages=counts.pages, copies=counts.copies, originals=counts.originals)
