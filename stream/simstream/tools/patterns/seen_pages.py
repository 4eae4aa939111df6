"""Remembers the addresses of judged pages and their clusters, the last ones in bounded memory."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from simstream.errors import LogDamaged
from simstream.model import COMPARED_VERDICTS, VerdictKind
from simstream.tools.patterns.address import PageAddress

PAGE_BYTES: Final = 450
PART_BYTES: Final = 150
"""Memory of a page, and of each part of its address, in the table and while patterns are learned."""
NO_CLUSTER: Final = -1
"""The cluster of a page with nothing to compare."""
_MERGE_BYTES: Final = 200
_MAX_CLUSTER_DIGITS: Final = 20
_RUN_BITS: Final = 67
"""Bits of a cluster's number in its run."""


class PatternVerdict(msgspec.Struct, frozen=True):
    """The fields of a verdict that patterns are learned from."""

    id: str
    url: str | None
    verdict: VerdictKind
    cluster_id: str | None
    ordinal: int
    merged_clusters: list[str] = []


class SitePages(NamedTuple):
    """The pages of one site, in the order of their verdicts."""

    site: str
    rests: list[str]
    """Path and query of each page."""
    clusters: list[int]
    """The number of each page's cluster at the end, or NO_CLUSTER."""

    def address(self, number: int) -> PageAddress:
        """Return the address of a page, cut anew: the parts of all pages would take much memory."""
        found = PageAddress.cut(self.site, self.rests[number])
        assert found is not None  # it was cut before
        return found


class SeenPages:
    """The last pages of one log or one run of `dedup`, whose cluster numbers belong together.

    Of each address the verdict with the greatest ordinal counts. `room`: bytes of memory that all pages may take.
    The pages that came first are forgotten first.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self.used = 0
        """The bytes that its pages take, by a generous estimate."""
        self._pages: OrderedDict[tuple[str, str], tuple[int, int]] = OrderedDict()
        """Ordinal and cluster of each page, by site and rest of its address."""
        self._taken_by: OrderedDict[int, int] = OrderedDict()
        """For a cluster that became part of another one: that cluster, which has a smaller number."""
        self.forgotten = 0
        """The number of pages that were forgotten."""
        self.passed = 0
        """The number of verdicts on pages whose address cannot be cut."""

    def __len__(self) -> int:
        return len(self._pages)

    def add(self, verdict: PatternVerdict) -> None:
        """Take in the next verdict. Raises LogDamaged for a cluster that has no number. About 10 us."""
        address = PageAddress.parse(verdict.id if verdict.url is None else verdict.url)
        if verdict.merged_clusters:
            self._merge(verdict)
        if address is None:
            self.passed += 1
            return
        key = (address.site, address.rest)
        if (known := self._pages.get(key)) is not None and known[0] > verdict.ordinal:
            return
        self._forget(key)
        if verdict.verdict == VerdictKind.WITHDRAWN:
            return
        is_compared = verdict.verdict in COMPARED_VERDICTS
        self._pages[key] = verdict.ordinal, _number(verdict.cluster_id) if is_compared else NO_CLUSTER
        self.used += _cost(key)
        self._make_room()

    def sites(self, run: int = 0) -> Iterator[SitePages]:
        """Yield the pages of each site, with the clusters of the end. Those of another run have other numbers."""
        by_site: dict[str, list[tuple[int, str]]] = {}
        for (site, rest), (ordinal, _) in self._pages.items():
            by_site.setdefault(site, []).append((ordinal, rest))
        for site, pages in by_site.items():
            rests = [rest for _, rest in sorted(pages)]
            clusters = [self._last(self._pages[site, rest][1]) for rest in rests]
            far = [each if each == NO_CLUSTER else each + (run << _RUN_BITS) for each in clusters]
            yield SitePages(site, rests, far)

    def _merge(self, verdict: PatternVerdict) -> None:
        into = _number(verdict.cluster_id)
        for merged in map(_number, verdict.merged_clusters):
            if merged > into and merged not in self._taken_by:  # the oldest of clusters stays
                self._taken_by[merged] = into
                self.used += _MERGE_BYTES
        self._make_room()

    def _last(self, cluster: int) -> int:
        """Return the cluster that a cluster is part of at the end. Shortens the way for the next call."""
        way = []
        while cluster in self._taken_by:
            way.append(cluster)
            cluster = self._taken_by[cluster]
        for before in way:
            self._taken_by[before] = cluster
        return cluster

    def _forget(self, key: tuple[str, str]) -> None:
        if self._pages.pop(key, None) is not None:
            self.used -= _cost(key)

    def _make_room(self) -> None:
        while self.used > self._room:
            if len(self._taken_by) * _MERGE_BYTES * 2 > self._room or not self._pages:
                self._taken_by.popitem(last=False)
                self.used -= _MERGE_BYTES
            else:
                self._forget(next(iter(self._pages)))
                self.forgotten += 1


def _cost(key: tuple[str, str]) -> int:
    parts = sum(map(key[1].count, "/&;"))
    return PAGE_BYTES + sys.getsizeof(key[0]) + sys.getsizeof(key[1]) + PART_BYTES * parts


def _number(cluster: str | None) -> int:
    if cluster is None or not (cluster.isascii() and cluster.isdigit() and len(cluster) <= _MAX_CLUSTER_DIGITS):
        raise LogDamaged(
            f"a verdict names the cluster {str(cluster)[:40]!r}, which is no number",
            "give verdicts that simstream has written",
        )
    return int(cluster)
