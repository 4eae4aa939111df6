"""Keeps live pages and their clusters while files are judged by the true J: in plain objects."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

import msgspec

from simstream.judge.policy import Policy


class ClusteredPage(msgspec.Struct, gc=False, eq=False):
    """A live page. `age` is the ordinal at which it joined its cluster; `cluster` may since have merged."""

    id: str
    ordinal: int
    age: int
    time: int
    text: int
    cluster: int
    live: bool = True


class LiveClusters:
    """The live pages of a run by id, text and cluster. Memory: about 600 bytes a live page.

    A page stands for its text if new pages are compared with it: under `any` each page, under `canonical` the
    oldest page of each cluster.
    """

    def __init__(self, policy: Policy) -> None:
        self._any = policy.link == "any"
        self._window = policy.window_ms
        self._pages: dict[str, ClusteredPage] = {}
        self._parents = array("q")
        """Per ordinal the cluster into which the cluster of this id was merged, or itself."""
        self._members: dict[int, list[tuple[int, int, ClusteredPage]]] = {}
        self._standing: dict[int, list[tuple[int, ClusteredPage]]] = {}
        self._by_time: list[tuple[int, int, ClusteredPage]] = []
        self._stream_time: int | None = None

    def begin(self, ordinal: int) -> None:
        """Take the next ordinal, which may become the id of a cluster."""
        self._parents.append(ordinal)

    def advance(self, time: int) -> None:
        """Advance stream time to the time of a readable page. Pages that leave the window leave."""
        self._stream_time = time if self._stream_time is None else max(time, self._stream_time)
        while self._by_time and self.is_late(self._by_time[0][0]):
            page = heappop(self._by_time)[2]
            if page.live:
                self.leave(page)

    def is_late(self, time: int) -> bool:
        """Return whether a page of this time is out of the window."""
        now = self._stream_time
        return self._window is not None and now is not None and time <= now - self._window

    def page(self, page_id: str) -> ClusteredPage | None:
        """Return the live page with this id."""
        return self._pages.get(page_id)

    def leave(self, page: ClusteredPage) -> None:
        """Remove a live page. Under `canonical` the oldest page that remains takes its place."""
        cluster, was_canonical = self.cluster(page), self.canonical(page) is page
        page.live = False
        del self._pages[page.id]
        oldest = self._oldest(cluster)
        if oldest is None:
            self._members.pop(cluster, None)
        elif was_canonical and not self._any:
            self._stand(oldest)
        self.first(page.text)  # forgets pages that left

    def add(self, page: ClusteredPage) -> None:
        """Add a page to its cluster, which may be new."""
        self._pages[page.id] = page
        heappush(self._members.setdefault(page.cluster, []), (page.age, page.ordinal, page))
        if self._any or self.canonical(page) is page:
            self._stand(page)
        if self._window is not None:
            heappush(self._by_time, (page.time, page.ordinal, page))

    def cluster(self, page: ClusteredPage) -> int:
        """Return the id of a page's cluster."""
        at = page.cluster
        while (parent := self._parents[at]) != at:
            self._parents[at] = at = self._parents[parent]
        page.cluster = at
        return at

    def merge(self, into: int, others: Iterable[int]) -> None:
        """Make one cluster of several. Cost: each page moves at most once for each doubling of its cluster."""
        for other in others:
            self._parents[other] = into
            less, more = self._members.pop(other, []), self._members.pop(into, [])
            if len(less) > len(more):
                less, more = more, less
            for member in less:
                heappush(more, member)
            if more:
                self._members[into] = more

    def canonical(self, page: ClusteredPage) -> ClusteredPage:
        """Return the oldest live page of a live page's cluster."""
        return self._oldest(self.cluster(page)) or page

    def first(self, text: int) -> ClusteredPage | None:
        """Return the page of the least ordinal that stands for a text."""
        standing = self._standing.get(text, [])
        while standing and not self._stands(standing[0][1]):
            heappop(standing)
        if standing:
            return standing[0][1]
        self._standing.pop(text, None)
        return None

    def all_of(self, text: int) -> Iterator[ClusteredPage]:
        """Yield every page that stands for a text, by ordinal. Cost: linear in the pages that stood for it."""
        last, standing = None, self._standing.get(text, ())
        for _, page in sorted(standing) if len(standing) > 1 else standing:
            if page is not last and self._stands(page):
                yield page
            last = page

    def _stands(self, page: ClusteredPage) -> bool:
        return page.live and (self._any or self.canonical(page) is page)

    def _stand(self, page: ClusteredPage) -> None:
        heappush(self._standing.setdefault(page.text, []), (page.ordinal, page))

    def _oldest(self, cluster: int) -> ClusteredPage | None:
        members = self._members.get(cluster, [])
        while members and not members[0][2].live:
            heappop(members)
        return members[0][2] if members else None
