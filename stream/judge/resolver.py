"""The resolver: decides the verdict of each accepted page, in order.

It follows the table "A page's life" of the design line by line. A batch is looked up in the index at once; what
the index answers are entries, and which of their pages are live is decided here, page after page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream.files import Part
from stream.files.layer import Files
from stream.files.sealed import Sealed
from stream.index.index import Index, join
from stream.index.keys import Keys
from stream.judge import store_check
from stream.judge.batch import Batch
from stream.judge.candidates import WIDE, Candidate, LivePage, compare
from stream.judge.clusters import Cluster
from stream.judge.nearby import nearby
from stream.judge.pages import PageRecord
from stream.judge.sizes import Alert, Grown
from stream.judge.store import Store
from stream.model import REASONS, U64, Columns, Kind, Source, Verdict
from stream.text.policy import Policy
from stream.wire.frame import take
from stream.wire.verdict import similarity

MOST_PAGES = 4096
"""Pages of one batch: they are compared with one another."""
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

    row: int
    distance: int
    agreement: int


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


class Near(NamedTuple):
    """What one page of a batch is near to."""

    number: int
    """The page's place in the batch."""
    matches: list[Row]
    twins: list[int]
    """The entries among them of the same fingerprint and sketch."""
    fellows: list[Row]
    """(group, distance, agreement) of the batch's own keys."""


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
        return self._store.live_pages

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
        return self._store.outgrown()

    def nbytes(self) -> dict[str, int]:
        """Memory by part, in bytes."""
        return self._store.nbytes()

    def parts(self) -> list[Part]:
        """All state but for `stream_time` and `live_pages`, for a snapshot; between two calls of `judge`."""
        return self._store.parts()

    def restore(self, parts: Sequence[Part], stream_time: int | None, live_pages: int) -> None:
        """Take over what `parts` gave, before anything is judged. Raises StateDamaged."""
        self._store.restore(parts, stream_time, live_pages)

    def check(self) -> None:
        """Whether all parts of the state agree with one another; linear. Raises StateDamaged."""
        store_check.check(self._store)

    def on_disk(self, files: Files, found: Iterable[Sealed]) -> None:
        """These files hold immutable parts from now on: read them there."""
        self._store.on_disk(files, found)

    def close(self) -> None:
        """End the thread that merges, and close files."""
        self._store.close()

    def judge(
        self, columns: Columns, time: NDArray[np.int64], ordinal: int, sources: Sequence[Source]
    ) -> list[Verdict]:
        """Judge n pages with accepted times (n,), the first of which has this ordinal.

        Cost: the index's lookups, and some 20 us a page plus what its matches cost.
        """
        verdicts: list[Verdict] = []
        for at in range(0, len(columns), MOST_PAGES):
            end = min(at + MOST_PAGES, len(columns))
            part = columns if end - at == len(columns) else take(columns, at, end)
            verdicts += self._judge(part, time[at:end], ordinal + at, sources[at:end])
        return verdicts

    def _judge(
        self, columns: Columns, time: NDArray[np.int64], ordinal: int, sources: Sequence[Source]
    ) -> list[Verdict]:
        readable = columns.kind == Kind.READABLE
        short = columns.words < self.policy.short_words
        batch = self._begin(columns, time, ordinal, short, readable)
        near = iter(self._nearby(batch))
        known = self._store.known(columns.identity)
        verdicts = []
        for page, rows in zip(_arrivals(columns, time, short, ordinal, sources), known, strict=True):
            if page.kind == Kind.READABLE:
                verdicts.append(self._readable(page, rows, next(near), batch))
            else:
                verdicts.append(self._other(page, rows))
        self._store.settle()
        return verdicts

    def _begin(
        self,
        columns: Columns,
        time: NDArray[np.int64],
        ordinal: int,
        short: NDArray[np.bool_],
        readable: NDArray[np.bool_],
    ) -> Batch:
        """The readable pages as a batch, each with a row."""
        ids, id_ends = columns.ids, columns.id_ends
        if not readable.all():
            ids, id_ends = _ids_of(columns, readable)
        batch = Batch(
            ordinals=ordinal + np.flatnonzero(readable).astype(np.int64),
            times=time[readable],
            identities=columns.identity[readable],
            fingerprints=columns.fingerprint[readable],
            sketches=columns.sketch[readable],
            short=short[readable],
            buckets=self._store.buckets(time[readable]),
            ids=ids,
            id_ends=id_ends,
        )
        self._store.begin(batch)
        return batch

    def match(self, fingerprints: U64, sketches: U64, words: NDArray[np.uint32]) -> list[Match]:
        """The pages that one page would match, closest first: its fingerprint (1,), sketch (1, S), words (1,).

        All live pages under `any`, the canonical ones under `canonical`.
        """
        found = self._index.query(fingerprints, sketches, words < self.policy.short_words)
        store = self._store
        rows = zip(found.entry.tolist(), found.distance.tolist(), found.agreement.tolist(), strict=True)
        matched = [
            (-agreement, distance, store.ordinal_rank(row), row)
            for entry, distance, agreement in rows
            for row in store.rows.pages(entry)
        ]
        return [
            Match(
                store.id_of(row),
                distance,
                similarity(-disagreement, self.policy.sketch_bits),
                str(store.clusters.id(store.clusters.of(row))),
            )
            for disagreement, distance, _, row in sorted(matched)
        ]

    def candidates(self, columns: Columns, time: NDArray[np.int64], distance: int = WIDE) -> list[Candidate]:
        """What one page (columns of one row, accepted time (1,)) would be compared with, were it judged now.

        All live pages within `distance`, and within the policy's, closest first, each with what decides about
        it; see `judge/nearby`. A page that is not readable has none. Nothing changes. Cost: linear in the live
        pages, a few ns each.
        """
        [page] = _arrivals(columns, time, columns.words < self.policy.short_words, 0, [Source("", 0, 0)])
        return nearby(page, page.time, self._store, self.policy, distance) if page.kind == Kind.READABLE else []

    def earlier(self, identity: bytes) -> LivePage | None:
        """The live version of the page with this identity, which its next one would be compared with."""
        store = self._store
        [rows] = store.known(np.frombuffer(identity, np.uint64).reshape(1, 2))
        row = store.live_version(identity, rows)
        return store.live_page(row) if row else None

    def _nearby(self, batch: Batch) -> Iterator[Near]:
        """What each page of a batch is near to; the index is asked for as many at once as its limit allows."""
        fellows = self._fellows(batch)
        at, count = 0, len(batch)
        while at < count:
            found = self._index.query(batch.fingerprints[at:], batch.sketches[at:], batch.short[at:])
            starts, done = found.starts.tolist(), found.done
            rows = list(zip(found.entry.tolist(), found.distance.tolist(), found.agreement.tolist(), strict=True))
            same = np.flatnonzero((found.distance == 0) & (found.agreement == self.policy.sketch_bits))
            twins: dict[int, list[int]] = {}
            for number, entry in zip(
                np.searchsorted(found.starts, same, side="right").tolist(), found.entry[same].tolist(), strict=True
            ):
                twins.setdefault(number - 1, []).append(entry)
            for i in range(done):
                yield Near(at + i, rows[starts[i] : starts[i + 1]], twins.get(i, []), next(fellows))
            at += done

    def _fellows(self, batch: Batch) -> Iterator[list[Row]]:
        """The keys of the batch itself that each of its pages is near to."""
        firsts = np.array(batch.firsts, np.int64)
        short = batch.short.view(np.uint8)
        keys = Keys(batch.fingerprints[firsts], batch.sketches[firsts], short[firsts])
        at = 0
        while at < len(batch):
            asked = Keys(batch.fingerprints[at:], batch.sketches[at:], short[at:])
            found = join(asked, keys, self.policy.limits, self.policy.short_limits)
            starts = found.starts.tolist()
            rows = list(zip(found.entry.tolist(), found.distance.tolist(), found.agreement.tolist(), strict=True))
            for i in range(found.done):
                yield rows[starts[i] : starts[i + 1]]
            at += found.done

    def _other(self, page: Arrival, known: list[int]) -> Verdict:
        """A page with nothing to compare: it may end its earlier version, and matches nothing."""
        if page.kind in (Kind.TOO_SHORT, Kind.WITHDRAWN):
            earlier = self._store.live_version(page.identity, known)
            if earlier:
                self._store.leave(earlier, page.identity)
        word = {Kind.UNREADABLE: "unreadable", Kind.WITHDRAWN: "withdrawn"}.get(Kind(page.kind), "too_short")
        return self._verdict(page, word)

    def _readable(self, page: Arrival, known: list[int], near: Near, batch: Batch) -> Verdict:
        store = self._store
        store.advance(page.time)
        earlier = store.live_version(page.identity, known)
        before = store.record(earlier) if earlier else None
        same = self._compare(before, page) if before is not None else None
        if earlier and same is None:
            store.leave(earlier, page.identity)
        best, ties = self._ties(page, near, batch, earlier if same else 0)
        entry = store.entry_of(near.number, near.twins) if self._any else 0
        tied, merged = store.tie(ties) if ties else (None, [])
        if same is not None and before is not None and tied is not None:
            cluster = store.renew(near.number, entry, earlier, before.age, tied)
        else:
            cluster = store.add(near.number, entry, tied)
        word = "unchanged" if same else "near_duplicate" if best else "new"
        if same is not None:
            best = Best(0, *same)
        verdict = self._verdict(page, word, cluster, merged, best)
        if store.is_late(page.time):
            store.leave(batch.rows[near.number].item(), page.identity)
        else:
            store.look(cluster)
        return verdict

    def _compare(self, other: PageRecord, page: Arrival) -> tuple[int, int] | None:
        """Distance and agreement of two pages, or None where they are no match."""
        pair = compare(page, other, self.policy)
        return (pair.distance, pair.agreement) if pair.fails is None else None

    def _ties(self, page: Arrival, near: Near, batch: Batch, same: int) -> tuple[Best | None, set[Cluster]]:
        """The best match, and the clusters that the page ties together; `same` is the row of the earlier version
        that it matches, 0 for none.

        All pages of one entry match one another, so under `any` they share a cluster, and the earliest of them
        stands for all.
        """
        store = self._store
        if same and not self._any:
            return None, {store.clusters.of(same)}
        best: Best | None = None
        ties = {store.clusters.of(same)} if same else set()
        for found in self._found(page, near, batch):
            if self._any:
                ties.add(store.clusters.of(found.row))
            if best is None or self._closer(found, best):
                best = found
        if best is not None and not self._any:
            ties = {store.clusters.of(best.row)}
        return best, ties

    def _found(self, page: Arrival, near: Near, batch: Batch) -> Iterator[Best]:
        """All matches that are live now: of before, of the batch, and those that others have made way for."""
        store = self._store
        for entry, distance, agreement in near.matches:
            if row := store.earliest(entry):
                yield Best(row, distance, agreement)
        for group, distance, agreement in near.fellows:
            for entry in batch.fresh.get(group, ()):
                if row := store.earliest(entry):
                    yield Best(row, distance, agreement)
        for heir in store.promoted:
            if store.rows.is_live(heir) and (pair := self._compare(store.record(heir), page)) is not None:
                yield Best(heir, *pair)

    def _closer(self, one: Best, other: Best) -> bool:
        if one.agreement != other.agreement:
            return one.agreement > other.agreement
        if one.distance != other.distance:
            return one.distance < other.distance
        return self._store.ordinal_rank(one.row) < self._store.ordinal_rank(other.row)

    def _verdict(
        self,
        page: Arrival,
        word: str,
        cluster: Cluster | None = None,
        merged: Sequence[int] = (),
        match: Best | None = None,
    ) -> Verdict:
        cluster_id = canonical = named = None
        if cluster is not None and word == "new":
            cluster_id, canonical = str(page.ordinal), page.id
        elif cluster is not None:
            store = self._store
            cluster_id, canonical = str(store.clusters.id(cluster)), store.id_of(store.clusters.oldest(cluster))
        if match and word == "near_duplicate":
            named = self._store.id_of(match.row)
        return Verdict(
            id=page.id,
            url=page.url,
            verdict=word,
            reason=page.reason or None,
            near_duplicate_of=named,
            distance=match.distance if match else None,
            similarity=similarity(match.agreement, self.policy.sketch_bits) if match else None,
            cluster_id=cluster_id,
            canonical=canonical,
            merged_clusters=tuple(map(str, merged)),
            fingerprint=f"{page.fingerprint:016x}" if cluster is not None else None,
            policy=self._policy_id,
            ordinal=page.ordinal,
            time=page.time,
            source=page.source,
        )


def _ids_of(columns: Columns, chosen: NDArray[np.bool_]) -> tuple[bytes, NDArray[np.uint32]]:
    """The ids of some pages, one after another, and where each ends."""
    starts = np.concatenate((np.zeros(1, np.uint32), columns.id_ends[:-1]))
    spans = zip(starts[chosen].tolist(), columns.id_ends[chosen].tolist(), strict=True)
    sizes = (columns.id_ends - starts)[chosen]
    return b"".join(columns.ids[start:end] for start, end in spans), np.cumsum(sizes, dtype=np.uint32)


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
