"""Judges again up to the pages to be explained, with the acceptor's and resolver's own code."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.judge import candidates as judge
from simstream.judge.candidates import LivePage
from simstream.judge.nearby_pages import NearbyPages
from simstream.judge.policy import Policy
from simstream.judge.resolver import Resolver
from simstream.judge.state import make_index
from simstream.model import FingerprintColumns, PageKind, PageSource, Verdict
from simstream.tools.explain.explanation import CandidateView, EarlierPage, StateBefore
from simstream.wire.identity_hash import identity_of
from simstream.wire.verdict import similarity


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

    State and cost are those of a judge over the same pages. Stops after the last wanted page. Also compares each
    wanted page with the page of the id `beside`.
    """

    def __init__(self, policy: Policy, wanted: Iterable[int], beside: str | None = None) -> None:
        self._policy = policy
        self._resolver = Resolver(policy, make_index(policy))
        self._wanted = sorted(set(wanted), reverse=True)
        self._beside = None if beside is None else identity_of(beside.encode("utf-8", "surrogateescape"))
        self.ordinal = 0
        self.origins = PageOrigins()

    def done(self) -> bool:
        """Return whether all wanted pages have come."""
        return not self._wanted

    def judge(self, batch: AcceptedBatch) -> Iterator[VerdictCase]:
        """Judge a batch, and yield the cases of the wanted pages in it."""
        self.origins.add(batch.topic_id, batch.sources)
        first, at, end = self.ordinal, 0, len(batch.sources)
        while self._wanted and self._wanted[-1] < first + end:
            stop = self._wanted.pop() - first
            self._judge(batch, at, stop)
            yield self._case(batch, stop)
            at = stop + 1
        if self._wanted:
            self._judge(batch, at, end)
        self.ordinal = first + end

    def _judge(self, batch: AcceptedBatch, start: int, stop: int) -> list[Verdict]:
        if start == stop:
            return []
        columns, ordinal = batch.columns.part(start, stop), self.ordinal + start
        return self._resolver.judge(columns, batch.time[start:stop], ordinal, batch.sources[start:stop])

    def _case(self, batch: AcceptedBatch, at: int) -> VerdictCase:
        one, time, ordinal = batch.columns.part(at, at + 1), batch.time[at : at + 1], self.ordinal + at
        met = self._resolver.meets(one, time)
        before = _before(met, one, int(time[0]), self._policy)
        candidates = [_shown(found, self._policy) for found in met.candidates]
        beside = self._besides(one, candidates)
        [verdict] = self._judge(batch, at, at + 1)
        return VerdictCase(
            verdict=verdict,
            kind=PageKind(int(one.kind[0])),
            words=int(one.words[0]),
            fingerprint=int(one.fingerprint[0]),
            origin=self.origins[ordinal],
            before=before,
            candidates=sorted(candidates, key=_rank),
            beside=beside,
        )

    def _besides(self, one: FingerprintColumns, candidates: Sequence[CandidateView]) -> CandidateView | None:
        page = None if self._beside is None else self._resolver.earlier(self._beside)
        if page is None or one.kind[0] != PageKind.READABLE:
            return None
        near = next((found for found in candidates if found.ordinal == page.record.ordinal), None)
        if near is not None:
            return near
        pair = _compare(one, page, self._policy)
        return CandidateView(
            id=page.record.id,
            ordinal=page.record.ordinal,
            distance=pair.distance,
            agreement=pair.agreement if self._policy.sketch_bits else None,
            similarity=similarity(pair.agreement, self._policy.sketch_bits),
            cluster_id=str(page.cluster_id),
            short=_is_short(one, page, self._policy),
            rejected_by=pair.fails,
        )


class _ComparedFields(NamedTuple):
    """The columns of a page that are compared."""

    fingerprint: int
    sketch: int
    short: bool


def _before(met: NearbyPages, one: FingerprintColumns, time: int, policy: Policy) -> StateBefore:
    """Return the state before a page.

    It has no earlier version if the page's own time takes that out of the window.
    """
    window, readable = policy.window_ms, one.kind[0] == PageKind.READABLE
    now = max(time, time if met.stream_time is None else met.stream_time) if readable else met.stream_time
    edge = now - window if window is not None and now is not None else None
    found = met.earlier
    if found is not None and readable and edge is not None and found.record.time <= edge:
        found = None
    earlier = None if found is None else _earlier(found, one if readable else None, policy)
    late = readable and edge is not None and time <= edge
    return StateBefore(met.live_pages, met.stream_time, bool(late), earlier)


def _earlier(page: LivePage, one: FingerprintColumns | None, policy: Policy) -> EarlierPage:
    """Return the earlier version, compared with the only page of the columns if both can be compared."""
    shown = EarlierPage(page.record.ordinal, page.record.time, str(page.cluster_id))
    if one is None:
        return shown
    pair = _compare(one, page, policy)
    return msgspec.structs.replace(
        shown,
        distance=pair.distance,
        agreement=pair.agreement if policy.sketch_bits else None,
        similarity=similarity(pair.agreement, policy.sketch_bits),
        short=_is_short(one, page, policy),
        rejected_by=pair.fails,
    )


def _compare(one: FingerprintColumns, page: LivePage, policy: Policy) -> judge.PairComparison:
    """Compare the only page of the columns with a live page, by the judge's own rule."""
    sketch = int.from_bytes(one.sketch.tobytes(), "little")
    short = bool(one.words[0] < policy.short_words)
    return judge.compare(_ComparedFields(int(one.fingerprint[0]), sketch, short), page, policy)


def _is_short(one: FingerprintColumns, page: LivePage, policy: Policy) -> bool:
    return page.short or bool(one.words[0] < policy.short_words)


def _shown(found: judge.Candidate, policy: Policy) -> CandidateView:
    return CandidateView(
        id=found.id,
        ordinal=found.ordinal,
        distance=found.distance,
        agreement=found.agreement if policy.sketch_bits else None,
        similarity=found.similarity,
        cluster_id=found.cluster_id,
        short=found.short,
        rejected_by=found.rejected_by,
    )


def _rank(one: CandidateView) -> tuple[int, int, int, int]:
    """Return the sort key: matches as verdicts rank them, then other candidates, the nearest first."""
    agreement = -(one.agreement or 0)
    if one.rejected_by is None:
        return 0, agreement, one.distance, one.ordinal
    return 1, one.distance, agreement, one.ordinal
