"""The resolver: decides the verdict of each accepted page, in order.

It follows the table "A page's life" of the design line by line. A batch is looked up in the index at once; what
the index answers are entries, and which of their pages are live is decided here, page after page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream.index import Index
from stream.judge.candidates import WIDE, Candidate, candidates, compare
from stream.judge.clusters import Cluster
from stream.judge.members import LivePage
from stream.judge.sizes import Alert, Grown
from stream.judge.store import Store
from stream.model import REASONS, U64, Columns, Kind, Source, Verdict
from stream.text.policy import Policy
from stream.wire.verdict import similarity

Row = tuple[int, int, int]
"""(entry, distance, agreement), as the index answers"""


class Match(NamedTuple):
    """A live page that a text matches."""

    id: str
    distance: int
    similarity: float | None
    cluster_id: str


class Best(NamedTuple):
    """The closest match: greatest agreement, then smallest distance, then least ordinal."""

    page: LivePage
    distance: int
    agreement: int

    @property
    def rank(self) -> tuple[int, int, int]:
        return (-self.agreement, self.distance, self.page.ordinal)


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """One page as the resolver looks at it; `sketch` is the sketch's bits as one integer."""

    id: str
    url: str | None
    identity: bytes
    kind: int
    reason: str
    time: int
    ordinal: int
    fingerprint: int
    sketch: int
    short: bool
    source: Source


class Resolver:
    """Judges accepted pages under one policy. Its state is a function of the pages in their order.

    `index` must be empty and made for the policy's limits and sketch; `alert` says which clusters are noticed as
    out of proportion, and decides nothing.
    """

    def __init__(self, policy: Policy, index: Index, alert: Alert | None = None) -> None:
        self.policy = policy
        self._policy_id = policy.id
        self._index = index
        self._any = policy.link == "any"
        self._store = Store(index, policy.window_ms, canonical_only=not self._any, alert=alert or Alert())

    @property
    def live_pages(self) -> int:
        """How many pages are live."""
        return len(self._store.directory)

    @property
    def stream_time(self) -> int | None:
        """ms since 1970; None before the first readable page."""
        return self._store.stream_time

    @property
    def largest_cluster(self) -> int:
        """Live pages of the largest cluster."""
        return self._store.sizes.largest

    def outgrown(self) -> list[Grown]:
        """Clusters out of proportion, each once when it becomes so and at each doubling; see `judge/sizes`."""
        return self._store.sizes.noticed()

    def judge(
        self, columns: Columns, time: NDArray[np.int64], ordinal: int, sources: Sequence[Source]
    ) -> list[Verdict]:
        """Judge n pages with accepted times (n,), the first of which has this ordinal.

        Cost: the index's lookups, and some 20 us a page plus what its matches cost.
        """
        readable = columns.kind == Kind.READABLE
        short = columns.words < self.policy.short_words
        keys = columns.fingerprint[readable], columns.sketch[readable], short[readable]
        entries = iter(self._store.intern(*keys))
        matches = self._lookup(*keys)
        verdicts = []
        for page in _arrivals(columns, time, short, ordinal, sources):
            if page.kind == Kind.READABLE:
                verdicts.append(self._readable(page, next(entries), next(matches)))
            else:
                verdicts.append(self._other(page))
        self._store.settle()
        return verdicts

    def match(self, fingerprints: U64, sketches: U64, words: NDArray[np.uint32]) -> list[Match]:
        """The pages that one page would match, closest first: its fingerprint (1,), sketch (1, S), words (1,).

        All live pages under `any`, the canonical ones under `canonical`.
        """
        [rows] = self._lookup(fingerprints, sketches, words < self.policy.short_words)
        found = [
            Best(page, distance, agreement)
            for entry, distance, agreement in rows
            for page in self._store.pages(entry)
        ]
        return [
            Match(
                best.page.id,
                best.distance,
                similarity(best.agreement, self.policy.sketch_bits),
                str(best.page.cluster.root().id),
            )
            for best in sorted(found, key=lambda best: best.rank)
        ]

    def candidates(self, columns: Columns, time: NDArray[np.int64], distance: int = WIDE) -> list[Candidate]:
        """What one page (columns of one row, accepted time (1,)) would be compared with, were it judged now.

        All live pages within `distance`, and within the policy's, closest first, each with what decides about
        it; see `judge/candidates`. A page that is not readable has none. Nothing changes. Cost: about half a
        microsecond a live page.
        """
        [page] = _arrivals(columns, time, columns.words < self.policy.short_words, 0, [Source("", 0, 0)])
        if page.kind != Kind.READABLE:
            return []
        return candidates(page, self._store.remaining(page.time), self.policy, distance)

    def earlier(self, identity: bytes) -> LivePage | None:
        """The live version of the page with this identity, which its next one would be compared with."""
        return self._store.directory.get(identity)

    def _lookup(self, fingerprints: U64, sketches: U64, short: NDArray[np.bool_]) -> Iterator[list[Row]]:
        """The matches of each page in turn; the index is asked for as many at once as its limit allows."""
        at = 0
        while at < len(fingerprints):
            found = self._index.query(fingerprints[at:], sketches[at:], short[at:])
            starts = found.starts.tolist()
            rows = list(zip(found.entry.tolist(), found.distance.tolist(), found.agreement.tolist(), strict=True))
            for number in range(found.done):
                yield rows[starts[number] : starts[number + 1]]
            at += found.done

    def _other(self, page: Arrival) -> Verdict:
        """A page with nothing to compare: it may end its earlier version, and matches nothing."""
        earlier = self._store.directory.get(page.identity)
        if earlier is not None and page.kind in (Kind.TOO_SHORT, Kind.WITHDRAWN):
            self._store.leave(earlier)
        word = {Kind.UNREADABLE: "unreadable", Kind.WITHDRAWN: "withdrawn"}.get(Kind(page.kind), "too_short")
        return self._verdict(page, word, None)

    def _readable(self, page: Arrival, entry: int, matches: list[Row]) -> Verdict:
        store = self._store
        store.advance(page.time)
        earlier = store.directory.get(page.identity)
        same = self._compare(earlier, page) if earlier is not None else None
        if earlier is not None and same is None:
            store.leave(earlier)
        best, ties = self._ties(page, matches, same)
        cluster, merged = store.tie(ties) if ties else (Cluster(page.ordinal), [])
        stored = LivePage(
            identity=page.identity,
            id=page.id,
            ordinal=page.ordinal,
            age=same.page.age if same else page.ordinal,
            time=page.time,
            fingerprint=page.fingerprint,
            sketch=page.sketch,
            short=page.short,
            entry=entry,
            cluster=cluster,
        )
        store.add(stored, cluster)
        if same is not None:
            store.leave(same.page)
        word = "unchanged" if same else "near_duplicate" if best else "new"
        verdict = self._verdict(page, word, cluster, merged, same or best)
        if store.is_late(page.time):
            store.leave(stored)
        else:
            store.sizes.look(cluster, len(store.directory))
        return verdict

    def _compare(self, earlier: LivePage, page: Arrival) -> Best | None:
        """The earlier version as a match, or None where it is none."""
        pair = compare(page, earlier, self.policy)
        return Best(earlier, pair.distance, pair.agreement) if pair.fails is None else None

    def _ties(self, page: Arrival, matches: list[Row], same: Best | None) -> tuple[Best | None, set[Cluster]]:
        """The best match, and the root clusters that the page ties together.

        All pages of one entry match one another, so under `any` they share a cluster, and the earliest of them
        stands for all.
        """
        if same is not None and not self._any:
            return None, {same.page.cluster.root()}
        best: Best | None = None
        ties = {same.page.cluster.root()} if same else set()
        for entry, distance, agreement in matches:
            match = self._store.earliest(entry)
            if match is None:
                continue
            if self._any:
                ties.add(match.cluster.root())
            found = Best(match, distance, agreement)
            if best is None or found.rank < best.rank:
                best = found
        for heir in self._store.promoted:
            if heir.live and (found_heir := self._compare(heir, page)) is not None:
                best = found_heir if best is None or found_heir.rank < best.rank else best
        if best is not None and not self._any:
            ties = {best.page.cluster.root()}
        return best, ties

    def _verdict(
        self,
        page: Arrival,
        word: str,
        cluster: Cluster | None,
        merged: Sequence[int] = (),
        match: Best | None = None,
    ) -> Verdict:
        return Verdict(
            id=page.id,
            url=page.url,
            verdict=word,
            reason=page.reason or None,
            near_duplicate_of=match.page.id if match and word == "near_duplicate" else None,
            distance=match.distance if match else None,
            similarity=similarity(match.agreement, self.policy.sketch_bits) if match else None,
            cluster_id=str(cluster.id) if cluster else None,
            canonical=cluster.canonical().id if cluster else None,
            merged_clusters=tuple(map(str, merged)),
            fingerprint=f"{page.fingerprint:016x}" if cluster else None,
            policy=self._policy_id,
            ordinal=page.ordinal,
            time=page.time,
            source=page.source,
        )


def _arrivals(
    columns: Columns, time: NDArray[np.int64], short: NDArray[np.bool_], ordinal: int, sources: Sequence[Source]
) -> Iterator[Arrival]:
    identities, sketches = columns.identity.tobytes(), columns.sketch.tobytes()
    width = 8 * columns.sketch.shape[1]
    rows = zip(
        columns.id_list(),
        columns.url_list(),
        columns.kind.tolist(),
        columns.reason.tolist(),
        time.tolist(),
        columns.fingerprint.tolist(),
        short.tolist(),
        sources,
        strict=True,
    )
    for i, (page_id, url, kind, reason, ms, fingerprint, is_short, source) in enumerate(rows):
        identity = identities[16 * i : 16 * i + 16]
        sketch = int.from_bytes(sketches[width * i : width * (i + 1)], "little")
        yield Arrival(
            page_id, url, identity, kind, REASONS[reason], ms, ordinal + i, fingerprint, sketch, is_short, source
        )
