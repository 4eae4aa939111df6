"""Finds what one shard of the tables knows of each accepted page: its best match, and the clusters that it ties.

A shard holds the pages that have a prefix in its range of leading bytes. Which of them are live follows from the
log alone: from identity, kind, time and window. So a shard reports live pages only. Its clusters are those that its
own matches connect. They are parts of the judge's clusters: one live page of each stands for all of them.

    judge's clusters          ┌──────────────────────────┐
    clusters in a shard       │ (a b c)   (d)   (e f)    │    a page that matches b, c and f is answered with
                              └──────────────────────────┘    its best match and one page of each other cluster

So the judge learns the best of all matches, and every cluster that a page ties. An answer stays short, however many
pages match: the shard merges each further cluster of an answer into another cluster at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import not_
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.errors import SettingsError
from simstream.index.index import Index
from simstream.index.keys import KeyColumns
from simstream.index.plan import divided_plan
from simstream.index.shard import Shard
from simstream.judge.batch import MAX_BATCH_PAGES, PageBatch, key_places
from simstream.judge.best_match import BestMatch, ClosestFinder
from simstream.judge.candidates import compare
from simstream.judge.cluster_sizes import SizeAlert
from simstream.judge.earlier_versions import EarlierVersion
from simstream.judge.expiry import Beat
from simstream.judge.live_pages import LivePages
from simstream.judge.live_state import LiveState
from simstream.judge.numbers import NO_ROW, BatchPlace, ClusterRef, EntryId, Ordinal, Row
from simstream.judge.policy import Policy
from simstream.judge.seen_keys import SeenKeys
from simstream.model import ENDING_KINDS, U64, FingerprintColumns, PageKind
from simstream.wire.answer import MatchColumns, MatchLists

BEAT_EVERY_PAGES: Final = 256
MAX_FEW_TIES: Final = 8
"""Up to so many ties, an answer names all of them. More are compared first, to leave out what the judge knows."""
MAX_TIES_AT_ONCE: Final = 4096
MAX_COMPARED_TIES: Final = 16
"""How many pages the ties are compared with, that of the best match included. So the cost is linear."""


class BatchedPage:
    """A page of a batch as it is compared with its earlier version; see `candidates.ComparedPage`."""

    __slots__ = ("_batch", "_number")

    def __init__(self, batch: PageBatch, number: BatchPlace) -> None:
        self._batch, self._number = batch, number

    @property
    def fingerprint(self) -> int:
        """As `ComparedPage`."""
        return int(self._batch.fingerprints[self._number])

    @property
    def sketch(self) -> int:
        """As `ComparedPage`."""
        return int.from_bytes(self._batch.sketches[self._number].tobytes(), "little")

    @property
    def short(self) -> bool:
        """As `ComparedPage`."""
        return bool(self._batch.short[self._number])


def check_link(policy: Policy) -> None:
    """Raise SettingsError for a policy that shards cannot serve.

    Under `canonical` a page is compared with canonical pages alone. Which pages are canonical depends on the
    matches of all shards, so no shard knows it.
    """
    if policy.link != "any":
        raise SettingsError(
            f"link is {policy.link}, and no shard knows which pages are canonical",
            "use --link any, or a judge with its own index (--shards 0)",
        )


def owned_keys(shard: Shard, keys: KeyColumns, draws: int, distance: int) -> NDArray[np.bool_]:
    """Return for each key (n,) whether the shard owns one of its `draws` lookups in some table."""
    rotations = divided_plan(distance).rotations
    owned = np.zeros(len(keys.fingerprints), np.bool_)
    for draw in range(draws):
        owned |= shard.owns(keys.draw(draw), rotations)
    return owned


class ShardMatcher(LiveState):
    """Answers accepted pages from one shard.

    The verdicts that follow from its answers are a function of the pages in their order. After `take_in` an answer
    may name other pages of the same clusters.

    `index` must be empty and made for the policy and the shard. Raises SettingsError for link = "canonical".
    """

    def __init__(self, policy: Policy, index: Index, shard: Shard, beat: Beat) -> None:
        check_link(policy)
        super().__init__(policy, LivePages(index, policy.window_ms, False, SizeAlert(), beat))
        self.shard = shard
        self._beat = beat
        self._closest = ClosestFinder(policy, self._store, divided=shard.count > 1)

    def answer(self, columns: FingerprintColumns, time: NDArray[np.int64], ordinal: int) -> MatchColumns:
        """Return what the shard knows of n pages with accepted times (n,) and ordinals from `ordinal` on.

        Cost: the shard's part of the index's lookups. A page that the shard stores or matches costs some us more,
        every other page less than 1 us more.
        """
        lists = MatchLists()
        for at, part in _parts(columns):
            self._process(part, time[at : at + len(part)], Ordinal(ordinal + at), at, lists, None)
        return lists.columns()

    def collect_keys(self, more: int) -> SeenKeys:
        """Return the keys of all live pages, with room for those of more pages. Cost: .2 us for each entry."""
        index = self._store.index
        seen = SeenKeys(len(index) + more)
        for _, keys, buckets in index.live_entries():
            seen.add(key_places(keys, buckets))
            self._beat()
        return seen

    def take_in(self, columns: FingerprintColumns, time: NDArray[np.int64], ordinal: int, seen: SeenKeys) -> None:
        """Take in n pages without answering them. Only pages whose key may have come before are looked up.

        `seen` has the keys of all pages that the matcher has, and others. The same pages are live as after
        `answer`. Only copies are tied, and versions that match. So a later answer may tie many clusters that are
        one cluster of the judge; `_leave_out_known` shortens it. Cost: a fifth of `answer`.
        """
        for at, part in _parts(columns):
            self._process(part, time[at : at + len(part)], Ordinal(ordinal + at), at, MatchLists(), seen)

    def _process(
        self,
        columns: FingerprintColumns,
        time: NDArray[np.int64],
        ordinal: Ordinal,
        first: int,
        lists: MatchLists,
        seen: SeenKeys | None,
    ) -> None:
        """Answer one batch, or take it in if `seen` is given.

        `first` is the place of its first page among all pages of the answer.
        """
        store, policy = self._store, self.policy
        short = columns.words < policy.short_words
        batch = PageBatch.of_readable(columns, time, ordinal, short, store.buckets(time))
        owned = owned_keys(self.shard, batch.keys(slice(None)), policy.lookups, policy.distance)
        store.begin(batch, owned)
        looked_up = seen.add_and_find_seen(batch) & owned if seen else None
        self._closest.begin(batch, looked_up)
        self._batch = batch
        known = store.known(columns.identity)
        readable = columns.kind == PageKind.READABLE
        new = _are_single(columns.identity) & np.fromiter(map(not_, known), np.bool_, len(columns))
        lone = np.zeros(len(columns), np.bool_)
        if looked_up is None:
            lone[readable] = self._closest.find_lone()
        else:
            lone[readable] = self._closest.find_without_twin() & batch.are_alone()
        lone &= new
        busy = readable & ~lone
        if not readable.all():
            busy |= np.isin(columns.kind, ENDING_KINDS) & ~new
        numbers = np.cumsum(readable) - 1
        stream_times = self._stream_times(time, readable)
        for done, place in enumerate(np.flatnonzero(busy).tolist()):
            if done % BEAT_EVERY_PAGES == BEAT_EVERY_PAGES - 1:
                self._beat()
            if stream_times is not None:
                store.advance(int(stream_times[place]))
            if readable[place]:
                number = BatchPlace(int(numbers[place]))
                own = bool(owned[number])
                if seen is None:
                    self._answer_readable(number, int(time[place]), known[place], own, first + place, lists)
                else:
                    self._take_in_readable(number, int(time[place]), known[place], own)
            else:
                self._end_earlier(columns.identity[place].tobytes(), known[place])
        if stream_times is not None:
            store.advance(int(stream_times[-1]))
        chosen = numbers[lone]
        chosen = chosen[owned[chosen]]
        store.add_lone(chosen[batch.times[chosen] > store.late_until])
        store.settle()

    def _stream_times(self, time: NDArray[np.int64], readable: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        """Return the stream time (n,) after each page of a batch; None before the first readable page."""
        known = self._store.stream_time
        if known is None and not readable.any():
            return None
        least = int(time[readable][0]) if known is None else known
        return np.maximum.accumulate(np.where(readable, np.maximum(time, least), least))

    def _end_earlier(self, identity: bytes, known: Sequence[EarlierVersion]) -> None:
        """Let the earlier version of a page leave."""
        earlier = self._store.live_version(identity, known)
        if earlier:
            self._store.leave(earlier.row, identity)

    def _answer_readable(
        self,
        number: BatchPlace,
        time_ms: int,
        known: Sequence[EarlierVersion],
        owned: bool,
        place: int,
        lists: MatchLists,
    ) -> None:
        """Answer a readable page, and take it in if the shard owns it."""
        earlier = self._matching_version(number, known)
        same = earlier.row if earlier else NO_ROW
        best, ties = self._closest.choose(BatchedPage(self._batch, number), number, same)
        if ties:
            self._note(place, None if same else best, same, ties, lists)
        self._tie_and_store(number, time_ms, earlier, ties, self._closest.twin(number) if owned else None)

    def _take_in_readable(
        self, number: BatchPlace, time_ms: int, known: Sequence[EarlierVersion], owned: bool
    ) -> None:
        """Take in a readable page if the shard owns it, tied to its earlier version and to pages with its key."""
        store, batch = self._store, self._batch
        earlier, entry = self._matching_version(number, known), None
        ties = {store.clusters.of(earlier.row)} if earlier else set()
        if owned:
            entry = self._closest.find_twin(number)
            twin = store.rows.earliest(entry or batch.entry_of(batch.groups[number]))
            if twin:  # pages of one entry are in one cluster
                ties.add(store.clusters.of(twin))
        self._tie_and_store(number, time_ms, earlier, ties, entry)

    def _matching_version(self, number: BatchPlace, known: Sequence[EarlierVersion]) -> EarlierVersion | None:
        """Return the earlier version that a page matches. Another earlier version leaves."""
        store, identity = self._store, self._batch.identity(number)
        earlier = store.live_version(identity, known)
        if earlier and compare(BatchedPage(self._batch, number), earlier, self.policy).fails is not None:
            store.leave(earlier.row, identity)
            return None
        return earlier

    def _tie_and_store(
        self,
        number: BatchPlace,
        time_ms: int,
        earlier: EarlierVersion | None,
        ties: Collection[ClusterRef],
        entry: EntryId | None,
    ) -> None:
        """Tie clusters, and store a page in place of its earlier version.

        `entry` is the entry that the page joins, or 0. If None, the shard does not own the page, and does not store
        it.
        """
        store = self._store
        tied = self._tie(ties)
        if entry is None:
            if earlier:
                store.leave(earlier.row, self._batch.identity(number))
            return
        if earlier and tied is not None:
            store.renew(number, entry, earlier.row, earlier.age, tied)
        else:
            store.add(number, entry, tied)
        if time_ms <= store.late_until:
            store.leave_at_once(number)

    def _tie(self, ties: Collection[ClusterRef]) -> ClusterRef | None:
        """Merge clusters, some thousand at a time, and return the cluster; None if there are none."""
        if len(ties) <= MAX_TIES_AT_ONCE:
            return self._store.tie(ties)[0] if ties else None
        rest = list(ties)
        tied = rest[0]
        for at in range(1, len(rest), MAX_TIES_AT_ONCE):
            tied = self._store.tie({tied, *rest[at : at + MAX_TIES_AT_ONCE]})[0]
            self._beat()
        return tied

    def _note(
        self, place: int, best: BestMatch | None, same: Row, ties: Collection[ClusterRef], lists: MatchLists
    ) -> None:
        """Note the best match, and the oldest page of each further cluster that the judge may not know yet; see
        `_leave_out_known`. The judge itself knows the earlier version `same` and its cluster."""
        store = self._store
        row = best.row if best else same
        shown = store.clusters.of(row)
        oldest = [store.clusters.oldest(cluster) for cluster in ties if cluster != shown]
        others = [store.identity_of(other) for other in self._leave_out_known(row, oldest)]
        if best:
            lists.add(place, store.identity_of(best.row), best.distance, best.agreement, sorted(others))
        elif others:
            lists.add(place, None, 0, 0, sorted(others))

    def _leave_out_known(self, row: Row, others: Sequence[Row]) -> Sequence[Row]:
        """Return those of these live pages that the answer must name.

        Two live pages that match are in one cluster of the judge: the answer to the later one said so, even if the
        shard has lost its state since. So a page that matches that of `row`, or a page that is named, is left out.
        After MAX_COMPARED_TIES pages all that are left are named. Cost: .1 us for each page and each of these.
        """
        if len(others) <= MAX_FEW_TIES:
            return others
        rest = np.array([row, *others], np.uint32)
        found = self._store.pages.records(self._store.rows.table.column("cold")[rest])
        keys = KeyColumns(found["fingerprint"], found["sketch"], found["short"])
        named: list[Row] = []
        for _ in range(MAX_COMPARED_TIES):
            if not len(rest):
                break
            named.append(Row(int(rest[0])))
            apart = np.ones(len(rest), np.bool_)
            apart[self._store.index.join(keys.at(slice(1)), keys, limit=len(rest)).entry] = False
            rest, keys = rest[apart], keys.at(apart)
            self._beat()
        return [*named[1:], *rest.tolist()]


def _parts(columns: FingerprintColumns) -> Iterator[tuple[int, FingerprintColumns]]:
    """Yield the pages in batches, each with the place of its first page."""
    for at in range(0, len(columns), MAX_BATCH_PAGES):
        end = min(at + MAX_BATCH_PAGES, len(columns))
        yield at, columns if end - at == len(columns) else columns.part(at, end)


def _are_single(identities: U64) -> NDArray[np.bool_]:
    """Return for each identity (n, 2) whether it surely comes once. Compares the first halves alone."""
    _, which, counts = np.unique(identities[:, 0], return_inverse=True, return_counts=True)
    single: NDArray[np.bool_] = counts[which] == 1
    return single
