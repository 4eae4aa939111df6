"""The fold: verdicts and page records, in whatever order their partitions come, become live pages by cluster.

It keeps to what does not depend on that order: of a page the verdict with the greatest ordinal counts, and a merge
of two clusters, which happens once, holds for all their pages whenever they are heard of. So what comes again,
aborted or repeated, changes nothing. All is written through to a table, from which `Fold` begins after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass

import msgspec

from stream.feeds.ageing import Ageing
from stream.feeds.records import (
    NOWHERE,
    Merge,
    Sheet,
    Version,
    encode,
    entries,
    merge_key,
    place,
    sheet_key,
    version_key,
)
from stream.model import Verdict

MOST_DOUBTS = 16
_JUDGED = ("new", "near_duplicate", "unchanged")


Table = MutableMapping[str, bytes]
"""Where the fold's entries are kept: a Faust table or, in tests, a dict."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much the feed remembers."""

    window_ms: int = 72 * 3_600_000
    """A page is in the feed while its time is above stream time less this."""
    most_pages: int = 200_000
    """Beyond so many the oldest leave; likewise merges, and pages whose verdict is still to come."""


class Fold:
    """Live pages by cluster. A verdict or sheet costs O(log n), a merge O(pages that move)."""

    def __init__(self, table: Table, limits: Limits | None = None) -> None:
        """Begin with what the table holds. Raises msgspec.MsgspecError where an entry is none."""
        self.limits = limits or Limits()
        self.stream_time = 0
        """The largest time of a readable page so far, in ms since 1970."""
        self.revision = 0
        """Grows whenever something changes that can be seen."""
        self.changed: set[int] = set()
        """Clusters that changed; whoever shows them takes them out."""
        self.versions: dict[str, Version] = {}
        self._table = table
        self._merges: dict[int, Merge] = {}
        self._sheets: dict[str, Sheet] = {}
        self._members: dict[int, set[str]] = {}
        self._home: dict[str, int] = {}
        """The key in `_members` under which a live page is."""
        self._awaited: dict[str, str] = {}
        """The page by the place of a record that it waits for: its own, or that of a doubt."""
        self._places: set[str] = set()
        """Where the records of live pages lie."""
        self._ages = {kind: Ageing() for kind in "vms"}
        for name, entry in sorted(entries(table), key=lambda item: isinstance(item[1], Version)):
            self._restore(name, entry)
        for source in self._sheets.keys() & self._awaited.keys():  # a crash came between
            self.read(source, self._drop_sheet(source))
        self._age()

    def apply(self, verdict: Verdict) -> None:
        """Take a verdict; one that is known changes nothing."""
        source = place(verdict.source.partition, verdict.source.offset)
        sheet = self._sheets.get(source)
        before = self.versions.get(verdict.id)
        if before is None or verdict.ordinal > before.ordinal:
            if verdict.verdict in _JUDGED:
                self.stream_time = max(self.stream_time, verdict.time)
            for cluster in verdict.merged_clusters:
                self._merge(int(cluster), int(verdict.cluster_id or cluster))
            after = self._after(verdict, source, sheet, before)
            if after is not None:
                self._put(verdict.id, after)
        if sheet is not None:
            self._drop_sheet(source)
        self._age()

    def read(self, source: str, sheet: Sheet) -> None:
        """Take what the record of a page says of it."""
        page_id = self._awaited.pop(source, None)
        version = self.versions.get(page_id) if page_id is not None else None
        if page_id is None or version is None:
            if source not in self._places and not self._is_late(sheet.time):
                self._sheets[source] = sheet
                self._table[sheet_key(source)] = encode(sheet)
                self._ages["s"].set(source, sheet.time + self.limits.window_ms)
        elif version.source == source:
            self._put(page_id, msgspec.structs.replace(version, title=sheet.title, awaits_title=False))
        else:
            doubts = tuple(doubt for doubt in version.doubts if doubt != source)
            changed = msgspec.structs.replace(version, doubts=doubts)
            self._put(page_id, _left(changed) if sheet.gone else changed)
        self._age()

    def clusters(self) -> Iterator[int]:
        """The ids of all clusters that have a live page."""
        return iter(self._members)

    def members(self, cluster: int) -> list[tuple[str, Version]]:
        """The live pages of a cluster with their ids, in the order in which they joined."""
        found = [(page_id, self.versions[page_id]) for page_id in self._members.get(cluster, ())]
        return sorted(found, key=lambda item: item[1].joined)

    def root(self, cluster: int) -> int:
        """The cluster that this one has gone into, by however many merges; itself where by none."""
        while (merge := self._merges.get(cluster)) is not None:
            cluster = merge.into
        return cluster

    def _after(self, verdict: Verdict, source: str, sheet: Sheet | None, before: Version | None) -> Version | None:
        """What the page is after a verdict; None where that is what it was."""
        if verdict.verdict in _JUDGED:
            return self._came(verdict, source, sheet, before)
        if before is None or not before.is_live or verdict.verdict == "unreadable":
            return None
        now = msgspec.structs.replace(before, ordinal=verdict.ordinal)
        if verdict.reason != "http_status":
            return _left(now)
        if sheet is None and len(now.doubts) < MOST_DOUBTS:
            return msgspec.structs.replace(now, doubts=(*now.doubts, source))
        return _left(now) if sheet is not None and sheet.gone else None

    def _came(self, verdict: Verdict, source: str, sheet: Sheet | None, before: Version | None) -> Version:
        now = Version(
            ordinal=verdict.ordinal,
            time=verdict.time,
            stream_time=self.stream_time,
            cluster=int(verdict.cluster_id or verdict.ordinal),
            joined=verdict.ordinal,
            first=verdict.time,
            verdict=verdict.verdict,
            like=verdict.near_duplicate_of,
            similarity=verdict.similarity,
            url=verdict.url,
            source=source,
            title=sheet.title if sheet is not None else "",
            awaits_title=sheet is None,
        )
        if verdict.verdict != "unchanged":
            return now
        if before is None or not before.is_live or self._is_late(before.time):
            return msgspec.structs.replace(now, similarity=None)
        return msgspec.structs.replace(
            now,
            joined=before.joined,
            first=before.first,
            verdict=before.verdict,
            like=before.like,
            similarity=before.similarity,
            title=before.title if now.awaits_title else now.title,
        )

    def _merge(self, cluster: int, into: int) -> None:
        if cluster in self._merges or self.root(into) == cluster:
            return
        self._merges[cluster] = merge = Merge(into, self.stream_time)
        self._table[merge_key(cluster)] = encode(merge)
        self._ages["m"].set(str(cluster), merge.time + 2 * self.limits.window_ms)
        moved = self._members.pop(cluster, set())
        if moved:
            root = self.root(into)
            self._members.setdefault(root, set()).update(moved)
            self._home.update(dict.fromkeys(moved, root))
            self._touch(cluster, root)

    def _put(self, page_id: str, version: Version) -> None:
        self._forget(page_id)
        self._remember(page_id, version)
        self._table[version_key(page_id)] = encode(version)

    def _remember(self, page_id: str, version: Version) -> None:
        self.versions[page_id] = version
        self._ages["v"].set(page_id, version.time + self.limits.window_ms)
        if not version.is_live:
            return
        for source in (*version.doubts, version.source) if version.awaits_title else version.doubts:
            self._awaited[source] = page_id
        self._places.add(version.source)
        self._home[page_id] = root = self.root(version.cluster)
        self._members.setdefault(root, set()).add(page_id)
        self._touch(root)

    def _forget(self, page_id: str) -> None:
        version = self.versions.pop(page_id, None)
        if version is None or not version.is_live:
            return
        for source in (*version.doubts, version.source):
            self._awaited.pop(source, None)
        self._places.discard(version.source)
        root = self._home.pop(page_id)
        members = self._members[root]
        members.remove(page_id)
        if not members:
            del self._members[root]
        self._touch(root)

    def _restore(self, name: str, entry: Version | Merge | Sheet) -> None:
        """Take an entry from the table; merges come before versions."""
        window = self.limits.window_ms
        match entry:
            case Merge():
                self._merges[int(name)] = entry
                self._ages["m"].set(name, entry.time + 2 * window)
            case Sheet():
                self._sheets[name] = entry
                self._ages["s"].set(name, entry.time + window)
            case Version():
                self.stream_time = max(self.stream_time, entry.stream_time)
                self._remember(name, entry)

    def _age(self) -> None:
        """Let go what has left the window, or is too much."""
        for name in self._outdated("v"):
            self._forget(name)
            del self._table[version_key(name)]
        for name in self._outdated("m"):
            del self._merges[int(name)], self._table[merge_key(int(name))]
        for name in self._outdated("s"):
            del self._sheets[name], self._table[sheet_key(name)]

    def _outdated(self, kind: str) -> Iterator[str]:
        yield from self._ages[kind].ended(self.stream_time)
        yield from self._ages[kind].surplus(self.limits.most_pages)

    def _drop_sheet(self, source: str) -> Sheet:
        del self._table[sheet_key(source)]
        self._ages["s"].drop(source)
        return self._sheets.pop(source)

    def _is_late(self, time: int) -> bool:
        return time <= self.stream_time - self.limits.window_ms

    def _touch(self, *clusters: int) -> None:
        self.changed.update(clusters)
        self.revision += 1


def _left(version: Version) -> Version:
    return msgspec.structs.replace(version, cluster=NOWHERE, doubts=(), title="", awaits_title=False)
