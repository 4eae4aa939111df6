"""The resolver: decides the verdict of each accepted page ("A page's life").

It follows the table "A page's life" of the design line by line. It looks up a whole batch in the index at once. The
index answers with entries; this module decides page by page which of their pages are live.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simstream.index.index import Index
from simstream.judge.accepted_page import AcceptedPage, accepted_pages
from simstream.judge.answer_book import AnswerBook
from simstream.judge.answered_finder import AnsweredFinder
from simstream.judge.batch import MAX_BATCH_PAGES, PageBatch
from simstream.judge.best_match import BestMatch, ClosestFinder
from simstream.judge.candidates import WIDE_DISTANCE, compare
from simstream.judge.cluster_sizes import GrownCluster, SizeAlert
from simstream.judge.earlier_versions import EarlierVersion
from simstream.judge.expiry import Beat
from simstream.judge.live_pages import LivePages
from simstream.judge.lookups import QueryableState
from simstream.judge.nearby_pages import NearbyPages, nearby
from simstream.judge.numbers import NO_ENTRY, NO_ROW, Age, BatchPlace, Ordinal
from simstream.judge.policy import Policy
from simstream.judge.verdict_maker import VerdictMaker
from simstream.model import (
    ENDING_KINDS,
    VERDICT_OF_KIND,
    FingerprintColumns,
    PageKind,
    PageSource,
    Verdict,
    VerdictKind,
)

BEAT_EVERY_PAGES = 256
"""A page may have to compare itself with thousands of others."""


class Resolver(QueryableState):
    """Judges accepted pages under one policy. Its state is a function of the pages in their order.

    `index` must be empty and made for the policy's limits and sketch. With a `book` of answers the index stays
    empty: shards on other machines find the matches. `alert` says which clusters count as too large; it changes no
    verdict. `beat` is called between the steps of long work.
    """

    def __init__(
        self,
        policy: Policy,
        index: Index,
        alert: SizeAlert | None = None,
        *,
        book: AnswerBook | None = None,
        beat: Beat = lambda: None,
    ) -> None:
        self._any = policy.link == "any"
        self._beat = beat
        canonical_only, indexes = not self._any, book is None
        store = LivePages(index, policy.window_ms, canonical_only, alert or SizeAlert(), beat, indexes=indexes)
        super().__init__(policy, store)
        self._closest: ClosestFinder | AnsweredFinder
        self._closest = ClosestFinder(policy, store) if book is None else AnsweredFinder(policy, store, book)
        self._verdicts = VerdictMaker(policy, self._store)
        self.late_pages = 0
        """The number of pages that were outside the window when they came, since the start."""

    @property
    def largest_cluster(self) -> int:
        """The number of live pages of the largest cluster."""
        return self._store.sizes.largest

    @property
    def cluster_sizes(self) -> Mapping[int, int]:
        """Return the number of clusters by their number of live pages."""
        return self._store.sizes.clusters

    def outgrown(self) -> list[GrownCluster]:
        """Return clusters that are too large: each once at first, and again at each doubling."""
        return self._store.outgrown()

    def judge(
        self, columns: FingerprintColumns, time: NDArray[np.int64], ordinal: int, sources: Sequence[PageSource]
    ) -> list[Verdict]:
        """Judge n pages with accepted times (n,) and ordinals from `ordinal` on, and return their verdicts.

        Cost: the index's lookups, some 20 us a page, and the cost of its matches.
        """
        verdicts: list[Verdict] = []
        for at in range(0, len(columns), MAX_BATCH_PAGES):
            end = min(at + MAX_BATCH_PAGES, len(columns))
            part = columns if end - at == len(columns) else columns.part(at, end)
            verdicts += self._judge(part, time[at:end], Ordinal(ordinal + at), sources[at:end])
        return verdicts

    def _judge(
        self, columns: FingerprintColumns, time: NDArray[np.int64], ordinal: Ordinal, sources: Sequence[PageSource]
    ) -> list[Verdict]:
        short = columns.words < self.policy.short_words
        batch = PageBatch.of_readable(columns, time, ordinal, short, self._store.buckets(time))
        self._store.begin(batch)
        self._closest.begin(batch)
        places = map(BatchPlace, itertools.count())
        known = self._store.known(columns.identity)
        verdicts: list[Verdict] = []
        for page, rows in zip(accepted_pages(columns, time, short, ordinal, sources), known, strict=True):
            if len(verdicts) % BEAT_EVERY_PAGES == BEAT_EVERY_PAGES - 1:
                self._beat()
            if page.kind == PageKind.READABLE:
                verdicts.append(self._readable(page, rows, next(places)))
            else:
                verdicts.append(self._other(page, rows))
        self._store.settle()
        return verdicts

    def meets(
        self, columns: FingerprintColumns, time: NDArray[np.int64], distance: int = WIDE_DISTANCE
    ) -> NearbyPages:
        """Return what one page (columns of one row, accepted time (1,)) would meet, if it were judged now.

        Changes nothing.

        Candidates are all live pages within `distance`, and within the policy's; see `judge/nearby_pages`. Cost:
        linear in the live pages, a few ns each.
        """
        [page] = accepted_pages(
            columns, time, columns.words < self.policy.short_words, Ordinal(0), [PageSource("", 0, 0)]
        )
        readable = page.kind == PageKind.READABLE
        found = nearby(page, page.time, self._store, self.policy, distance) if readable else []
        return NearbyPages(found, self.earlier(page.identity), self.live_pages, self.stream_time)

    def _other(self, page: AcceptedPage, known: Sequence[EarlierVersion]) -> Verdict:
        """Judge a page with nothing to compare: it matches nothing, and may end its earlier version."""
        if page.kind in ENDING_KINDS:
            earlier = self._store.live_version(page.identity, known)
            if earlier:
                self._store.leave(earlier.row, page.identity)
        return self._verdicts.of(page, VERDICT_OF_KIND[PageKind(page.kind)])

    def _readable(self, page: AcceptedPage, known: Sequence[EarlierVersion], number: BatchPlace) -> Verdict:
        """Judge a readable page; `number` is its place in the batch."""
        store, closest = self._store, self._closest
        store.advance(page.time)
        earlier = store.live_version(page.identity, known)
        pair = compare(page, earlier, self.policy) if earlier else None
        if earlier and pair and pair.fails is not None:
            store.leave(earlier.row, page.identity)
            earlier = None
        best, ties = closest.choose(page, number, earlier.row if earlier else NO_ROW)
        entry = closest.twin(number) if self._any else NO_ENTRY
        tied, merged = store.tie(ties) if ties else (None, [])
        if earlier and pair and tied is not None:
            age, best, kind = earlier.age, BestMatch(NO_ROW, pair.distance, pair.agreement), VerdictKind.UNCHANGED
            cluster = store.renew(number, entry, earlier.row, age, tied)
        else:
            age, kind = Age(page.ordinal), VerdictKind.NEAR_DUPLICATE if best else VerdictKind.NEW
            cluster = store.add(number, entry, tied)
        verdict = self._verdicts.of(page, kind, cluster, age, merged, best)
        if page.time <= store.late_until:
            self.late_pages += 1
            store.leave_at_once(number)
        else:
            store.look(cluster)
        return verdict
