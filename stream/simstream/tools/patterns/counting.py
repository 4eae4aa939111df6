"""Counts what the pages of a site have shown about each part of their addresses."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Final

import numpy as np

from simstream.tools.patterns.address import PageAddress
from simstream.tools.patterns.pattern import AddressPattern, PartKind, PartName, part_names, without
from simstream.tools.patterns.seen_pages import NO_CLUSTER, SitePages

MAX_FORMS: Final = 16
"""So many pages whose paths differ in one segment are compared with each other, the first ones."""
_HOLE: Final = "/"
"""Stands for any segment; no segment contains it."""
Places = Mapping[PartName, "array[int]"]
"""For each part, the numbers of the pages whose address has it."""


@dataclass(slots=True)
class PatternCounts:
    """What the pages with one part have shown; the fields of LearnedPattern."""

    pages: int = 0
    copies: int = 0
    exceptions: int = 0
    """Pages that are no copy of another page with the same plain address."""
    first: dict[int, int] = field(default_factory=dict)
    """For each cluster with such copies, the hash of its first plain address."""

    @property
    def originals(self) -> int:
        """The number of different texts: clusters of several runs with one first plain address are one text."""
        return len(set(self.first.values()))

    def add(self, other: PatternCounts) -> None:
        """Add what other pages have shown."""
        self.pages += other.pages
        self.copies += other.copies
        self.exceptions += other.exceptions
        for cluster, plain in other.first.items():
            self.first.setdefault(cluster, plain)

    def compare(self, cluster: int, other: int, plain: int) -> None:
        """Count a page beside another one with the same plain address, by their clusters and its hash."""
        if cluster == other:
            self.copies += 1
            self.first.setdefault(cluster, plain)
        else:
            self.exceptions += 1


PatternCount = tuple[AddressPattern, PatternCounts]


def places_of(pages: SitePages) -> dict[PartName, array[int]]:
    """Return for each part the numbers of the pages whose address has it."""
    found: dict[PartName, array[int]] = {}
    for number in range(len(pages.rests)):
        for part in part_names(pages.address(number)):
            found.setdefault(part, array("Q")).append(number)
    return found


def count_left_out(pages: SitePages, places: Places) -> Iterator[PatternCount]:
    """Yield for each part, in each section and in all, what its pages have shown about leaving it out."""
    numbers = {rest: number for number, rest in enumerate(pages.rests)}
    for part, having in places.items():
        first: dict[int, int] = {}
        """The cluster of the first page with a plain address, by the hash of that address."""
        by_section: dict[str, PatternCounts] = {}
        for number in having:
            cluster = pages.clusters[number]
            if cluster == NO_CLUSTER:
                continue
            address = pages.address(number)
            plain = without(address, part).rest
            counts = by_section.setdefault(_section(address, part), PatternCounts())
            counts.pages += 1
            name = hash(plain)
            if name in first:
                counts.compare(cluster, first[name], name)
            elif (itself := numbers.get(plain)) is not None:
                first[name] = pages.clusters[itself]
                counts.compare(cluster, first[name], name)
            else:
                first[name] = cluster
        yield from _with_whole(pages.site, part, "", by_section)


def count_replaced(
    pages: SitePages, places: Places, order: Mapping[str, tuple[int, str]]
) -> Iterator[PatternCount]:
    """Yield for each two segments what the pages have shown whose paths differ only there.

    Of the two, the segment that comes last in `order` is replaced.
    """
    segments = {part: having for part, having in places.items() if part.kind is PartKind.SEGMENT}
    seen: dict[str, dict[str, dict[str, PatternCounts]]] = {}
    for forms in _forms(pages, segments):
        for (to, plain), (name, number) in combinations(sorted(forms, key=lambda form: order[form[0]]), 2):
            if pages.clusters[plain] == pages.clusters[number] == NO_CLUSTER:
                continue
            section = _section(pages.address(number), PartName(PartKind.SEGMENT, name))
            counts = seen.setdefault(name, {}).setdefault(to, {}).setdefault(section, PatternCounts())
            counts.compare(pages.clusters[number], pages.clusters[plain], hash(pages.rests[plain]))
    for name, by_other in seen.items():
        part = PartName(PartKind.SEGMENT, name)
        having = (number for number in segments[part] if pages.clusters[number] != NO_CLUSTER)
        in_section = Counter(_section(pages.address(number), part) for number in having)
        for to, by_section in by_other.items():
            for section, compared in in_section.items():
                by_section.setdefault(section, PatternCounts()).pages = compared
            yield from _with_whole(pages.site, part, to, by_section)


def _forms(pages: SitePages, segments: Places) -> Iterator[list[tuple[str, int]]]:
    """Yield the segments and numbers of pages whose addresses differ in one segment, at least two of them at once.

    Addresses with a hole are compared by their hashes, in sorted arrays: about 30 bytes for each.
    """
    names = [part.name for part in segments]
    which, numbers, hashes = array("I"), array("Q"), array("q")
    for place, (part, having) in enumerate(segments.items()):
        which.extend(place for _ in having)
        numbers.extend(having)
        hashes.extend(hash(without(pages.address(number), part, _HOLE)) for number in having)
    holed = np.array(hashes, np.int64)
    order = np.argsort(holed, kind="stable")
    starts = np.flatnonzero(np.diff(holed[order])) + 1
    for start, end in pairwise([0, *starts.tolist(), len(order)]):
        if end - start > 1:
            yield [(names[which[at]], numbers[at]) for at in order[start : min(end, start + MAX_FORMS)].tolist()]


def _section(address: PageAddress, part: PartName) -> str:
    """Return the section of an address; nothing if the part is its first segment."""
    is_first = part.kind is PartKind.SEGMENT and address.path[0] == part.name
    return "" if is_first else address.section


def _with_whole(
    site: str, part: PartName, to: str, by_section: Mapping[str, PatternCounts]
) -> Iterator[PatternCount]:
    """Yield the counts of each section, and those of the whole site."""
    whole = PatternCounts()
    for section, counts in by_section.items():
        whole.add(counts)
        if section:
            yield AddressPattern(site, part.kind, part.name, to, section), counts
    yield AddressPattern(site, part.kind, part.name, to), whole
