"""Keeps the groups of live pages: merges them, and counts the pages of each.

A merge moves no page: the smaller group points to the larger one, and is looked up through it from then on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count


@dataclass(slots=True)
class PageGroup:
    """The number of a cluster's live pages."""

    cluster: int
    """The id of the cluster; after a merge, that of the survivor."""
    number: int
    """When two groups merge, the number of the larger one stays. A number is never used again."""
    pages: int = 0
    into: PageGroup | None = None
    """The group that this group was merged into."""


@dataclass(frozen=True, slots=True)
class GroupChanges:
    """Changes that the cards have not taken in yet. The reader removes the changes that it took in."""

    pages: dict[str, None] = field(default_factory=dict)
    """Ids of pages that came, changed or left."""
    renamed: set[int] = field(default_factory=set)
    """Numbers of groups that now belong to another cluster, or to none."""
    emptied: deque[int] = field(default_factory=deque)
    """Numbers of groups whose pages all belong to other groups now."""


class PageGroups:
    """The groups of all live pages. Each call costs O(log n) at most, over many calls."""

    def __init__(self) -> None:
        self.changes = GroupChanges()
        self._into: dict[int, int] = {}
        """The cluster that a cluster was merged into, directly or by more merges."""
        self._by_cluster: dict[int, PageGroup] = {}
        self._by_number: dict[int, PageGroup] = {}
        self._numbers = count()
        self._home: dict[str, PageGroup] = {}
        """The group that a page came into; it may have been merged into another since."""

    def root(self, cluster: int) -> int:
        """Return the cluster that this cluster was merged into by any number of merges, or itself."""
        while (above := self._into.get(cluster)) is not None:
            self._into[cluster] = self._into.get(above, above)  # half as far the next time
            cluster = above
        return cluster

    def home(self, page_id: str) -> PageGroup | None:
        """Return the group of a live page; None for any other page."""
        group = self._home.get(page_id)
        return None if group is None else _top(group)

    def numbered(self, number: int) -> PageGroup | None:
        """Return the group of this number; None if it has no pages, or was merged into another."""
        return self._by_number.get(number)

    def add(self, page_id: str, cluster: int) -> None:
        """Add a new page to the group of a cluster, or of the cluster that it was merged into."""
        root = self.root(cluster)
        group = self._by_cluster.get(root)
        if group is None:
            group = self._by_cluster[root] = PageGroup(root, next(self._numbers))
            self._by_number[group.number] = group
        group.pages += 1
        self._home[page_id] = group
        self.changes.pages[page_id] = None

    def remove(self, page_id: str) -> None:
        """Remove a page. A group without pages is removed, too."""
        group = _top(self._home.pop(page_id))
        group.pages -= 1
        if not group.pages:
            del self._by_cluster[group.cluster], self._by_number[group.number]
            self.changes.renamed.add(group.number)
        self.changes.pages[page_id] = None

    def merge(self, cluster: int, into: int) -> bool:
        """Merge a cluster into another, unless that one was merged into it. Returns whether it had pages."""
        root = self.root(into)
        if root == cluster:
            return False
        self._into[cluster] = into
        group = self._by_cluster.pop(cluster, None)
        if group is None:
            return False
        other = self._by_cluster.get(root)
        if other is None:
            group.cluster, self._by_cluster[root] = root, group
            self.changes.renamed.add(group.number)
        else:
            self._join(group, other)
        return True

    def forget(self, cluster: int) -> None:
        """Forget an old merge of this cluster. Pages that it moved stay where they are."""
        self._into.pop(cluster, None)

    def _join(self, group: PageGroup, into: PageGroup) -> None:
        if group.pages > into.pages:
            group.number, into.number = into.number, group.number
        group.into = into
        into.pages += group.pages
        self._by_number[into.number] = into
        del self._by_number[group.number]
        self.changes.renamed.update((group.number, into.number))
        self.changes.emptied.append(group.number)


def _top(group: PageGroup) -> PageGroup:
    """Return the group that this group was merged into by any number of merges."""
    while (above := group.into) is not None:
        group.into = above.into or above  # half as far the next time
        group = above
    return group
