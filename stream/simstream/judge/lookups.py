"""Answers questions about live pages: by id, by text, by cluster. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.index.matches import Matches
from simstream.judge.candidates import LivePage
from simstream.judge.clusters import records_of
from simstream.judge.live_state import LiveState
from simstream.judge.numbers import ClusterId, ClusterRef, Ordinal, Row
from simstream.model import U64, fingerprint_hex
from simstream.wire.verdict import similarity

Turn = Callable[[], AbstractContextManager[None]]
"""Returns a context in which no other thread uses the state."""


class Match(NamedTuple):
    """A live page that a text matches.

    Examples:
        >>> story = "The night train stops at the mill village again after forty years, before dawn."
        >>> with Deduper() as deduper:
        ...     verdicts = deduper.judge([{"id": "a", "text": story}])
        ...     [match] = deduper.match(story)
        >>> match.id, match.distance, match.similarity
        ('a', 0, 1.0)
    """

    id: str
    distance: int
    """The Hamming distance of the closest lookups, in bits of 64."""
    similarity: float | None
    """The agreement of the sketches from 0 to 1; None if the recipe has no sketch."""
    cluster_id: str


class KnownPage(NamedTuple):
    """A live page as the judge's state knows it."""

    id: str
    ordinal: Ordinal
    time: int
    """ms since 1970."""
    fingerprint: str
    """16 hex digits for each of its fingerprints."""
    short: bool
    cluster_id: str


class KnownCluster(NamedTuple):
    """A cluster of live pages."""

    id: str
    pages: int
    members: list[KnownPage]
    """The oldest first, up to the requested number; the first one is the canonical page."""


class QueryableState(LiveState):
    """Live pages that answer questions."""

    def match(
        self, fingerprints: U64, sketches: U64, words: NDArray[np.uint32], most: int | None = None
    ) -> list[Match]:
        """Return the pages that one page would match, closest first: its fingerprint (1,), sketch (1, S), words
        (1,).

        These are live pages under `any`, canonical pages under `canonical`; `most` cuts the list. Cost: the index's
        lookup, 1 us a match, and a few us for each listed page.
        """
        store, bits = self._store, self.policy.sketch_bits
        found = store.index.query(fingerprints, sketches, words < self.policy.short_words)
        return [
            Match(store.id_of(row), distance, similarity(agreement, bits), str(self._cluster_id(row)))
            for agreement, distance, row in self._ranked(found, by_agreement=True)[:most]
        ]

    def near(self, fingerprints: Sequence[int], most: int | None = None) -> list[Match]:
        """Return the live pages that a page's fingerprints alone find within the policy's distance, nearest first.

        It computes no similarities.
        """
        keys = np.array([fingerprints], np.uint64)
        found = self._store.index.near(keys[:, 0], keys[:, 1:])
        return [
            Match(self._store.id_of(row), distance, None, str(self._cluster_id(row)))
            for _, distance, row in self._ranked(found, by_agreement=False)[:most]
        ]

    def earlier(self, identity: bytes) -> LivePage | None:
        """Return the live version of the page with this identity, which its next version would be compared with."""
        row = self._row_of(identity)
        return None if row is None else self._store.live_page(row)

    def page(self, identity: bytes) -> KnownPage | None:
        """Return the live page with this identity. Cost: some 10 us."""
        row = self._row_of(identity)
        return None if row is None else self._known(row)

    def cluster_of(self, identity: bytes, most: int) -> KnownCluster | None:
        """Return the cluster of the live page with this identity, with its `most` oldest members. Cost: linear in
        the members."""
        row = self._row_of(identity)
        return None if row is None else self._members(self._store.clusters.of(row), most)

    def cluster(self, cluster_id: int, most: int, turn: Turn = nullcontext) -> KnownCluster | None:
        """Return a cluster by its id, if it ever had two pages. Cost: about 1 ns for each such cluster.

        It takes a `turn` to read the state. Between two turns it scans the ids, and the state may change.
        """
        clusters, wanted = self._store.clusters, ClusterId(cluster_id)
        with turn():
            ids = clusters.ids()
        records = list(records_of(ids, wanted))
        with turn():
            found = clusters.find(wanted, records)
            return None if found is None else self._members(found, most)

    def _ranked(self, found: Matches, by_agreement: bool) -> list[tuple[int, int, Row]]:
        """Return (agreement, distance, row) of every page of the found entries, in the order of verdicts."""
        store = self._store
        rows = zip(found.entry.tolist(), found.distance.tolist(), found.agreement.tolist(), strict=True)
        ranked = sorted(
            (-agreement if by_agreement else 0, distance, store.ordinal_rank(row), row, agreement)
            for entry, distance, agreement in rows
            for row in store.rows.pages(entry)
        )
        return [(agreement, distance, row) for _, distance, _, row, agreement in ranked]

    def _cluster_id(self, row: Row) -> ClusterId:
        clusters = self._store.clusters
        return clusters.id(clusters.of(row))

    def _members(self, found: ClusterRef, most: int) -> KnownCluster:
        clusters = self._store.clusters
        members = [self._known(row) for row in clusters.eldest(found, most)]
        return KnownCluster(str(clusters.id(found)), clusters.size(found), members)

    def _known(self, row: Row) -> KnownPage:
        record = self._store.record(row)
        return KnownPage(
            id=record.id,
            ordinal=record.ordinal,
            time=record.time,
            fingerprint=fingerprint_hex(record.fingerprint, record.sketch, self.policy.fingerprints),
            short=record.short,
            cluster_id=str(self._cluster_id(row)),
        )

    def _row_of(self, identity: bytes) -> Row | None:
        [known] = self._store.known(np.frombuffer(identity, np.uint64).reshape(1, 2))
        version = self._store.live_version(identity, known)
        return version.row if version else None
