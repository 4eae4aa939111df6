"""Judges again up to the pages to be explained, with the acceptor's and resolver's own code."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.judge.accepted_page import AcceptedPage, accepted_pages
from simstream.judge.candidates import Candidate, LivePage
from simstream.judge.nearby_pages import NearbyPages, candidate_of
from simstream.judge.numbers import Ordinal
from simstream.judge.policy import Policy
from simstream.judge.resolver import Resolver
from simstream.judge.state import make_index
from simstream.model import FingerprintColumns, PageKind, PageSource, Verdict
from simstream.tools.explain.explanation import CandidateView, EarlierPage, StateBefore
from simstream.wire.identity_hash import identity_of


class PageOrigin(NamedTuple):
    """Where one page came from. `topic_id` tells a topic from a later topic of the same name."""

    topic_id: str
    source: PageSource


class PageOrigins:
    """The origin of every page, by ordinal: 8 bytes a page, and a little for each run of one partition."""

    def __init__(self) -> None:
        self._offsets = array("q")
        self._starts: list[int] = []
        self._places: list[tuple[str, str, int]] = []

    def add(self, topic_id: str, sources: Sequence[PageSource]) -> None:
        """Add the next pages."""
        for source in sources:
            place = (topic_id, source.topic, source.partition)
            if not self._places or self._places[-1] != place:
                self._starts.append(len(self._offsets))
                self._places.append(place)
            self._offsets.append(source.offset)

    def __getitem__(self, ordinal: int) -> PageOrigin:
        if not 0 <= ordinal < len(self._offsets):
            raise IndexError(f"no page has the ordinal {ordinal}")
        topic_id, topic, partition = self._places[bisect_right(self._starts, ordinal) - 1]
        return PageOrigin(topic_id, PageSource(topic, partition, self._offsets[ordinal]))


class AcceptedBatch(NamedTuple):
    """Accepted pages of successive ordinals."""

    topic_id: str
    columns: FingerprintColumns
    time: NDArray[np.int64]
    sources: Sequence[PageSource]


@dataclass(frozen=True, slots=True)
class VerdictCase:
    """One page, the resolver's state just before it, and the verdict."""

    verdict: Verdict
    kind: PageKind
    words: int
    fingerprint: int
    origin: PageOrigin
    before: StateBefore
    candidates: Sequence[CandidateView]
    """Matches first, the closest match first, then the other candidates by distance."""
    beside: CandidateView | None = None
    """The page that the request compares it with, if that was live, at any distance."""


class Rejudge:
    """Judges pages in the log's order and stops at those of the wanted ordinals.

    State and cost are those of a judge over the same pages. Also compares each wanted page with the page of the id
    `beside`.
    """

    def __init__(self, policy: Policy, wanted: Iterable[int], beside: str | None = None) -> None:
        self._policy = policy
        self._resolver = Resolver(policy, make_index(policy))
        self._wanted = sorted(set(wanted), reverse=True)
        self._beside = None if beside is None else identity_of(beside.encode("utf-8", "surrogateescape"))
        self._ordinal = 0
        self.origins = PageOrigins()

    def cases(self, batches: Iterable[AcceptedBatch]) -> Iterator[VerdictCase]:
        """Yield the cases of the wanted pages. Takes no batch after the one of the last wanted page."""
        for batch in batches if self._wanted else ():
            yield from self._cases(batch)
            if not self._wanted:
                return

    def _cases(self, batch: AcceptedBatch) -> Iterator[VerdictCase]:
        self.origins.add(batch.topic_id, batch.sources)
        first, at, end = self._ordinal, 0, len(batch.sources)
        while self._wanted and self._wanted[-1] < first + end:
            stop = self._wanted.pop() - first
            self._judge(batch, at, stop)
            yield self._case(batch, stop)
            at = stop + 1
        if self._wanted:
            self._judge(batch, at, end)
        self._ordinal = first + end

    def _judge(self, batch: AcceptedBatch, start: int, stop: int) -> list[Verdict]:
        if start == stop:
            return []
        columns, ordinal = batch.columns.part(start, stop), self._ordinal + start
        return self._resolver.judge(columns, batch.time[start:stop], ordinal, batch.sources[start:stop])

    def _case(self, batch: AcceptedBatch, at: int) -> VerdictCase:
        one, time, ordinal = batch.columns.part(at, at + 1), batch.time[at : at + 1], Ordinal(self._ordinal + at)
        short = one.words < self._policy.short_words
        [page] = accepted_pages(one, time, short, ordinal, batch.sources[at : at + 1])
        near = self._resolver.meets(one, time)
        before = self._before(near, page)
        candidates = [_shown(found, self._policy.sketch_bits) for found in near.candidates]
        beside = self._besides(page, candidates)
        [verdict] = self._judge(batch, at, at + 1)
        return VerdictCase(
            verdict=verdict,
            kind=PageKind(page.kind),
            words=int(one.words[0]),
            fingerprint=page.fingerprint,
            origin=self.origins[ordinal],
            before=before,
            candidates=sorted(candidates, key=_rank),
            beside=beside,
        )

    def _besides(self, page: AcceptedPage, candidates: Sequence[CandidateView]) -> CandidateView | None:
        other = None if self._beside is None else self._resolver.earlier(self._beside)
        if other is None or page.kind != PageKind.READABLE:
            return None
        near = (found for found in candidates if found.ordinal == other.record.ordinal)
        return next(near, None) or self._compared(page, other)

    def _before(self, near: NearbyPages, page: AcceptedPage) -> StateBefore:
        """Return the state before a page.

        It has no earlier version if the page's own time takes that out of the window.
        """
        earlier, window, edge = near.earlier, self._policy.window_ms, None
        if window is not None and page.kind == PageKind.READABLE:
            edge = max(page.time, page.time if near.stream_time is None else near.stream_time) - window
            if earlier and earlier.record.time <= edge:
                earlier = None
        late = edge is not None and page.time <= edge
        return StateBefore(near.live_pages, near.stream_time, late, earlier and self._earlier(page, earlier))

    def _earlier(self, page: AcceptedPage, other: LivePage) -> EarlierPage:
        """Return the earlier version, compared with the page if both can be compared."""
        pair, time = self._compared(page, other), other.record.time
        if page.kind != PageKind.READABLE:
            return EarlierPage(pair.ordinal, time, pair.cluster_id)
        measured = pair.distance, pair.agreement, pair.similarity, pair.short, pair.rejected_by
        return EarlierPage(pair.ordinal, time, pair.cluster_id, *measured)

    def _compared(self, page: AcceptedPage, other: LivePage) -> CandidateView:
        """Compare the page with a live page, by the judge's own limits."""
        return _shown(candidate_of(page, other, self._policy), self._policy.sketch_bits)


def _shown(found: Candidate, bits: int) -> CandidateView:
    facts = {name: getattr(found, name) for name in CandidateView.__struct_fields__}
    return CandidateView(**facts | {"agreement": found.agreement if bits else None})


def _rank(one: CandidateView) -> tuple[int, int, int, int]:
    """Return the sort key: matches as verdicts rank them, then other candidates, the nearest first."""
    agreement = -(one.agreement or 0)
    if one.rejected_by is None:
        return 0, agreement, one.distance, one.ordinal
    return 1, one.distance, agreement, one.ordinal
