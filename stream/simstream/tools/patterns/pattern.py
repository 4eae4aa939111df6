"""Takes the parts of addresses away that make no other page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from math import ceil, log
from typing import Final, NamedTuple

import msgspec

from simstream.tools.patterns.address import MAX_NAME_CHARS, MAX_PARTS, PageAddress, is_name, name_of

CONFIDENCE: Final = 0.95
MAX_OTHERS: Final = 4
"""A segment is replaced by at most so many others, the first ones of a file."""


class PartKind(StrEnum):
    """Which part of an address a pattern names."""

    PARAMETER = "parameter"
    """A parameter of the query, with any value: `?sid=4`. Or several that come together, joined by `&`."""
    PATH_PARAMETER = "path_parameter"
    """A parameter of a segment, with any value: `;jsessionid=4`."""
    SEGMENT = "segment"
    """A segment of the path."""


class PartName(NamedTuple):
    """A part of an address that may be left out, or of a segment that may be replaced."""

    kind: PartKind
    name: str


class AddressPattern(msgspec.Struct, frozen=True, order=True):
    """A part of the addresses of a site that makes no other page."""

    site: str
    """Scheme, host and port."""
    kind: PartKind
    name: str
    to: str = ""
    """The segment that stands in its place in other addresses of the page. Empty: the part is left out."""
    below: str = ""
    """The first segment of all addresses that it is for. Empty: for all addresses of the site."""

    def __str__(self) -> str:
        shown = {PartKind.PARAMETER: f"?{self.name.replace('&', '=&')}=", PartKind.PATH_PARAMETER: f";{self.name}="}
        part = shown.get(self.kind, f"/{self.name}/ for /{self.to}/" if self.to else f"/{self.name}/")
        return f"{part} below /{self.below}/" if self.below else part


class LearnedPattern(msgspec.Struct, frozen=True):
    """A pattern with the numbers that speak for it. *Page*: a page with enough text to be compared."""

    site: str
    kind: PartKind
    name: str
    to: str
    below: str
    """The five fields of AddressPattern."""
    pages: int
    """Pages whose address has the part."""
    copies: int
    """Of them, near duplicates of a page with the same plain address: so many fetches it would have saved."""
    originals: int
    """The number of their different texts."""

    @property
    def pattern(self) -> AddressPattern:
        """The pattern without the numbers."""
        return AddressPattern(self.site, self.kind, self.name, self.to, self.below)

    @property
    def most_lost(self) -> float:
        """The greatest share of originals with a form that is no copy, with 95 % confidence, as none was seen.

        The exact bound for 0 of n; about 3/n, the rule of three. It holds for originals drawn at random.
        """
        return most_lost_of(self.originals)


def most_lost_of(originals: int) -> float:
    """Return the greatest share of exceptions that agrees with none among so many originals."""
    return 1.0 - float((1 - CONFIDENCE) ** (1 / originals))


def least_originals(most_lost: float) -> int:
    """Return how many originals without an exception show that at most this share has one."""
    return ceil(log(1 - CONFIDENCE) / log(1 - most_lost))


def part_names(address: PageAddress) -> Iterator[PartName]:
    """Yield the parts of an address that a pattern can name, each once. At most 3 * MAX_PARTS.

    A segment that stands twice in a path is none: it is not clear which one names the form.
    """
    found = [(PartKind.PARAMETER, name) for name in _parameters(address)]
    for segment in address.path:
        name, *parameters = segment.split(";", MAX_PARTS)
        found += [(PartKind.PATH_PARAMETER, name_of(part)) for part in parameters]
        if is_name(name) and not parameters and address.path.count(name) == 1:
            found.append((PartKind.SEGMENT, name))
    for kind, name in dict.fromkeys(found[: 3 * MAX_PARTS]):
        if 0 < len(name) <= MAX_NAME_CHARS:
            yield PartName(kind, name)


def _parameters(address: PageAddress) -> list[str]:
    """Return the names of the parameters, and of those that may only come together.

    These are the names with one first part, such as `utm_source` and `utm_medium`, and all names.
    """
    names = list(dict.fromkeys(map(name_of, address.query)))
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(name.partition("_")[0], []).append(name)
    together = [*families.values(), names]
    return names + ["&".join(family) for family in together if len(family) > 1 and all(family)]


def without(address: PageAddress, part: PartName, to: str = "") -> PageAddress:
    """Return the address without a part. A segment is left out, or replaced by `to`."""
    match part.kind:
        case PartKind.PARAMETER:
            names = part.name.split("&")
            return address._replace(query=tuple(one for one in address.query if name_of(one) not in names))
        case PartKind.PATH_PARAMETER:
            return address._replace(path=tuple(_without_parameter(segment, part.name) for segment in address.path))
        case PartKind.SEGMENT:
            if to:
                return address._replace(path=tuple(to if one == part.name else one for one in address.path))
            return address._replace(path=tuple(one for one in address.path if one != part.name))


def _without_parameter(segment: str, name: str) -> str:
    first, *parameters = segment.split(";", MAX_PARTS)
    return ";".join([first, *(part for part in parameters if name_of(part) != name)])


class PlainAddress(NamedTuple):
    """An address without the parts that make no other page."""

    text: str
    patterns: tuple[AddressPattern, ...]
    """The patterns of these parts; empty if the address has none."""


class PatternSet:
    """Finds the plain address of any address. Memory: the patterns."""

    def __init__(self, patterns: Iterable[AddressPattern]) -> None:
        self._by_part: dict[tuple[str, str, PartName], list[AddressPattern]] = {}
        for pattern in patterns:
            key = (pattern.site, pattern.below, PartName(pattern.kind, pattern.name))
            known = self._by_part.setdefault(key, [])
            if len(known) < MAX_OTHERS:
                known.append(pattern)
        self._sites = {site for site, _, _ in self._by_part}

    def __len__(self) -> int:
        return sum(map(len, self._by_part.values()))

    def __contains__(self, site: str) -> bool:
        return site in self._sites

    def plain(self, url: str) -> PlainAddress | None:
        """Return the plain address; None if the URL is on a site without patterns, or cannot be cut.

        Cost: about 5 us on another site, and 10 us more for each pattern of an address, at most 2 * MAX_PARTS of
        them.
        """
        address = PageAddress.parse(url)
        if address is None or address.site not in self._sites:
            return None
        used: list[AddressPattern] = []
        while len(used) < 2 * MAX_PARTS and (pattern := self._first(address)) is not None:
            address = without(address, PartName(pattern.kind, pattern.name), pattern.to)
            used.append(pattern)
        return PlainAddress(address.site + address.rest, tuple(used))

    def _first(self, address: PageAddress) -> AddressPattern | None:
        for part in part_names(address):
            for below in dict.fromkeys(("", address.section)):
                for pattern in self._by_part.get((address.site, below, part), ()):
                    if not pattern.to or pattern.to not in address.path:
                        return pattern
        return None


def unique(patterns: Sequence[LearnedPattern]) -> list[LearnedPattern]:
    """Return each pattern once, the last of equal ones, in a fixed order."""
    return [found for _, found in sorted({learned.pattern: learned for learned in patterns}.items())]
