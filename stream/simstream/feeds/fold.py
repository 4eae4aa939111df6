"""Turns verdicts and page records, in any order, into live pages by cluster.

It keeps to what does not depend on that order: of a page the verdict with the greatest ordinal counts, and a merge
of two clusters, which happens once, holds for all their pages whenever they are heard of. So what comes again,
aborted or repeated, changes nothing. All is written through to a table, from which `VerdictFold` begins after a
restart.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from itertools import islice

import msgspec

from simstream.feeds.expiry_times import ExpiryTimes
from simstream.feeds.groups import PageGroups
from simstream.feeds.records import (
    COUNTS_KEY,
    GONE,
    NOWHERE,
    ClusterMerge,
    Entry,
    LeftOutCounts,
    PageSheet,
    PageVersion,
    encode,
    entries,
    merge_key,
    place,
    sheet_key,
    version_key,
)
from simstream.model import COMPARED_VERDICTS, Verdict, VerdictKind
from simstream.text.titles import tidy

MAX_DOUBTS = 16
MAX_AGED = 256
"""So many entries of a kind leave at once: when stream time jumps, call `age` again."""


Table = MutableMapping[str, bytes]
"""The table of the fold's entries: see `feeds/table`; in tests, a dict."""


@dataclass(frozen=True, slots=True)
class FoldLimits:
    """The limits of the news page's memory."""

    window_ms: int = 72 * 3_600_000
    """A page is on the news page while its time is above stream time minus this."""
    most_pages: int = 200_000
    """If there are more pages, the oldest leave.

    The same holds for merges, and for pages that wait for a verdict.
    """


class VerdictFold:
    """Live pages by cluster. A verdict, a sheet and a merge cost O(log n), for clusters of any size."""

    def __init__(self, table: Table, limits: FoldLimits | None = None) -> None:
        """Begin with the table's entries. Raises msgspec.MsgspecError for an entry that cannot be read."""
        self.limits = limits or FoldLimits()
        self.stream_time = 0
        """The greatest time of a readable page up to now, in ms since 1970."""
        self.revision = 0
        """A number that grows whenever a visible thing changes."""
        self.groups = PageGroups()
        """The groups of pages, and their changes."""
        self.counts = LeftOutCounts()
        """The pages that were left out since the news page began with this log."""
        self.lists = 0
        """The number of lists of links in the window; they are not shown."""
        self.versions: dict[str, PageVersion] = {}
        self._table = table
        self._merges: dict[int, ClusterMerge] = {}
        self._sheets: dict[str, PageSheet] = {}
        self._awaited: dict[str, str] = {}
        """The waiting page, by the place of the record that it waits for: its own, or that of a doubt."""
        self._places: set[str] = set()
        """The places of the records of live pages."""
        self._ages = {kind: ExpiryTimes() for kind in "vms"}
        for name, entry in sorted(entries(table), key=lambda item: isinstance(item[1], PageVersion)):
            self._restore(name, entry)
        for source in self._sheets.keys() & self._awaited.keys():  # a crash came in between
            self.read(source, self._drop_sheet(source))
        before = self._live()
        while self.age():
            pass
        self.aged_at_start = before - self._live()
        """The number of live pages in the table that left at the start, such as for a shorter window."""

    def apply(self, verdict: Verdict, partition: int = 0, written: int = 0) -> None:
        """Take a verdict of this partition that was written at this time. A repeated verdict changes nothing.

        Versions of a page may come in any order if partitions were added. A merge of any of them holds.
        """
        source = place(verdict.source.partition, verdict.source.offset)
        sheet = self._sheets.get(source)
        if sheet is not None and not sheet.may_be_of(verdict.id):
            sheet = None
        if self._awaited.get(source, verdict.id) != verdict.id:  # `pages` was created again: that record is gone
            self.give_up_title(source)
        before = self.versions.get(verdict.id)
        if verdict.verdict in COMPARED_VERDICTS:
            self.stream_time = max(self.stream_time, verdict.time)
        for cluster in verdict.merged_clusters:
            self._merge(int(cluster), int(verdict.cluster_id or cluster))
        if before is None or verdict.ordinal > before.ordinal:
            if verdict.verdict in COMPARED_VERDICTS and self._is_late(verdict.time):
                self._count_late(verdict.ordinal, partition)
            after = self._after(verdict, source, sheet, before, written)
            if after is not None:
                self._put(verdict.id, after)
        if sheet is not None:
            self._drop_sheet(source)
        self.age()

    def read(self, source: str, sheet: PageSheet) -> None:
        """Take what a page's record says about the page."""
        page_id = self._awaited.get(source)
        is_of_another = page_id is not None and not sheet.may_be_of(page_id)
        page_id = None if is_of_another else self._awaited.pop(source, None)
        version = self.versions.get(page_id) if page_id is not None else None
        if page_id is None or version is None:
            if (is_of_another or source not in self._places) and not self._is_late(sheet.time):
                self._sheets[source] = sheet
                self._table[sheet_key(source)] = encode(sheet)
                self._ages["s"].set(source, sheet.time + self.limits.window_ms)
        elif version.source == source:
            self._put(page_id, _titled(version, sheet))
        else:
            doubts = tuple(doubt for doubt in version.doubts if doubt != source)
            changed = msgspec.structs.replace(version, doubts=doubts)
            self._put(page_id, _left(changed) if sheet.gone else changed)
        self.age()

    def note_up_to_date(self) -> None:
        """Note in the table that the news page was up to date once. Nothing that is shown changes."""
        if not self.counts.was_up_to_date:
            self.counts = msgspec.structs.replace(self.counts, was_up_to_date=True)
            self._table[COUNTS_KEY] = encode(self.counts)

    def awaited_titles(self) -> set[str]:
        """Return the places of the records that pages wait for to get their titles."""
        return {source for source, page_id in self._awaited.items() if self.versions[page_id].source == source}

    def give_up_title(self, source: str) -> None:
        """Show a page by its address, unless it has an earlier title: its record will not come."""
        page_id = self._awaited.get(source)
        version = self.versions.get(page_id) if page_id is not None else None
        if page_id is None or version is None or version.source != source:
            return
        address = version.title or tidy(version.url or page_id)
        self._count(msgspec.structs.replace(self.counts, untitled=self.counts.untitled + 1))
        self._put(page_id, msgspec.structs.replace(version, title=address, awaits_title=False))

    def forget_places(self) -> None:
        """Forget where the records of all pages were: the topic `pages` was created again.

        Pages that wait for their records are shown by their addresses.
        """
        for source in list(self._sheets):
            self._drop_sheet(source)
        for page_id, version in list(self.versions.items()):
            if version.is_live:
                title = version.title or tidy(version.url or page_id)
                self._put(
                    page_id,
                    msgspec.structs.replace(version, source=GONE, title=title, awaits_title=False, doubts=()),
                )

    def age(self) -> bool:
        """Remove some entries that left the window, or are too many. Returns whether to call it again."""
        gone = {kind: self._outdated(kind) for kind in self._ages}
        for name in gone["v"]:
            self._forget(name)
            del self._table[version_key(name)]
        for name in gone["m"]:
            del self._merges[int(name)], self._table[merge_key(int(name))]
            self.groups.forget(int(name))
        for name in gone["s"]:
            del self._sheets[name], self._table[sheet_key(name)]
        return any(len(names) == MAX_AGED for names in gone.values())

    def _after(
        self, verdict: Verdict, source: str, sheet: PageSheet | None, before: PageVersion | None, written: int
    ) -> PageVersion | None:
        """Return the page's version after a verdict; None if it did not change."""
        if verdict.verdict in COMPARED_VERDICTS:
            return self._came(verdict, source, sheet, before, written)
        if before is None or not before.is_live or verdict.verdict == VerdictKind.UNREADABLE:
            return None
        now = msgspec.structs.replace(before, ordinal=verdict.ordinal)
        if verdict.reason != "http_status":
            return _left(now)
        if sheet is None and len(now.doubts) < MAX_DOUBTS:
            return msgspec.structs.replace(now, doubts=(*now.doubts, source))
        return _left(now) if sheet is not None and sheet.gone else None

    def _came(
        self, verdict: Verdict, source: str, sheet: PageSheet | None, before: PageVersion | None, written: int
    ) -> PageVersion:
        now = PageVersion(
            ordinal=verdict.ordinal,
            time=verdict.time,
            stream_time=self.stream_time,
            cluster=int(verdict.cluster_id or verdict.ordinal),
            joined=verdict.ordinal,
            first=verdict.time,
            judged=written,
            verdict=verdict.verdict,
            like=verdict.near_duplicate_of,
            similarity=verdict.similarity,
            url=verdict.url,
            source=source,
            awaits_title=True,
        )
        now = now if sheet is None else _titled(now, sheet)
        if verdict.verdict != VerdictKind.UNCHANGED:
            return now
        if before is None or not before.is_live or self._is_late(before.time):
            return msgspec.structs.replace(now, similarity=None)
        return msgspec.structs.replace(
            now,
            joined=before.joined,
            first=before.first,
            judged=before.judged,
            verdict=before.verdict,
            like=before.like,
            similarity=before.similarity,
            title=before.title if now.awaits_title else now.title,
            is_list=before.is_list if now.awaits_title else now.is_list,
        )

    def _merge(self, cluster: int, into: int) -> None:
        into = self.groups.root(into)  # merges on the way there may be forgotten before this one
        if cluster in self._merges or into == cluster:
            return
        self._merges[cluster] = merge = ClusterMerge(into, self.stream_time)
        self._table[merge_key(cluster)] = encode(merge)
        self._ages["m"].set(str(cluster), merge.time + 2 * self.limits.window_ms)
        if self.groups.merge(cluster, into):
            self.revision += 1

    def _put(self, page_id: str, version: PageVersion) -> None:
        self._forget(page_id)
        self._remember(page_id, version)
        self._table[version_key(page_id)] = encode(version)

    def _remember(self, page_id: str, version: PageVersion) -> None:
        self.versions[page_id] = version
        self._ages["v"].set(page_id, version.time + self.limits.window_ms)
        if not version.is_live:
            return
        for source in (*version.doubts, version.source) if version.awaits_title else version.doubts:
            self._awaited[source] = page_id
        self._places.add(version.source)
        self.lists += version.is_list
        if version.is_shown:
            self.groups.add(page_id, version.cluster)
        self.revision += 1

    def _forget(self, page_id: str) -> None:
        version = self.versions.pop(page_id, None)
        if version is None or not version.is_live:
            return
        for source in (*version.doubts, version.source):
            if self._awaited.get(source) == page_id:  # in a new topic, another page's record may be there
                del self._awaited[source]
        self._places.discard(version.source)
        self.lists -= version.is_list
        if version.is_shown:
            self.groups.remove(page_id)
        self.revision += 1

    def _live(self) -> int:
        return sum(version.is_live for version in self.versions.values())

    def _restore(self, name: str, entry: Entry) -> None:
        """Take an entry from the table. Merges come before versions."""
        window = self.limits.window_ms
        match entry:
            case ClusterMerge():
                self._merges[int(name)] = entry
                self.groups.merge(int(name), entry.into)
                self._ages["m"].set(name, entry.time + 2 * window)
            case LeftOutCounts():
                self.counts = entry
            case PageSheet():
                self._sheets[name] = entry
                self._ages["s"].set(name, entry.time + window)
            case PageVersion():
                self.stream_time = max(self.stream_time, entry.stream_time)
                self._remember(name, entry)

    def _outdated(self, kind: str) -> list[str]:
        ages = self._ages[kind]
        ended = list(islice(ages.ended(self.stream_time), MAX_AGED))
        surplus = list(islice(ages.surplus(self.limits.most_pages), MAX_AGED - len(ended)))
        if kind == "v" and (live := sum(self.versions[name].is_live for name in surplus)):
            self._count(msgspec.structs.replace(self.counts, too_many=self.counts.too_many + live))
        return ended + surplus

    def _count_late(self, ordinal: int, partition: int) -> None:
        counts = self.counts
        if ordinal > counts.last.get(partition, -1):
            last = {**counts.last, partition: ordinal}
            self._count(msgspec.structs.replace(counts, too_old=counts.too_old + 1, last=last))

    def _count(self, counts: LeftOutCounts) -> None:
        self.counts = counts
        self._table[COUNTS_KEY] = encode(counts)
        self.revision += 1

    def _drop_sheet(self, source: str) -> PageSheet:
        del self._table[sheet_key(source)]
        self._ages["s"].drop(source)
        return self._sheets.pop(source)

    def _is_late(self, time: int) -> bool:
        return time <= self.stream_time - self.limits.window_ms


def _titled(version: PageVersion, sheet: PageSheet) -> PageVersion:
    return msgspec.structs.replace(version, title=sheet.title, is_list=sheet.is_list, awaits_title=False)


def _left(version: PageVersion) -> PageVersion:
    return msgspec.structs.replace(version, cluster=NOWHERE, doubts=(), title="", awaits_title=False, is_list=False)
