"""The obvious judge: quadratic, plain Python, no index, no union-find, no heaps.

It follows the tables of the design ("A page's life", "Clusters") and nothing else. The fast judge must say
exactly the same on any input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simstream.judge.acceptor import AcceptedPages, Acceptor
from simstream.judge.policy import Policy
from simstream.model import REASONS, FingerprintColumns, PageKind, PageSource, Verdict
from tests.naive_truth import jaccard

if TYPE_CHECKING:
    from simstream.deduper import FingerprintedPages


@dataclass
class NaivePage:
    id: str
    url: str | None
    identity: bytes
    kind: PageKind
    reason: str
    time: int
    fingerprint: int
    sketch: int
    words: int
    source: PageSource
    text: str = ""
    ordinal: int = -1
    age: int = -1
    cluster: int = -1


def agreement(a: NaivePage, b: NaivePage, policy: Policy) -> int:
    further = 64 * (policy.fingerprints - 1)
    return policy.sketch_bits - ((a.sketch ^ b.sketch) >> further).bit_count()


def lookup_values(page: NaivePage, policy: Policy) -> list[int]:
    """Fingerprints, then the words of the sketch that count for the distance."""
    column = page.sketch.to_bytes(8 * policy.sketch_words, "little")
    ends = 8 * (policy.fingerprints - 1 + policy.sketch_lookups)
    return [page.fingerprint, *(int.from_bytes(column[at : at + 8], "little") for at in range(0, ends, 8))]


def distance(a: NaivePage, b: NaivePage, policy: Policy) -> int:
    pairs = zip(lookup_values(a, policy), lookup_values(b, policy), strict=True)
    return min((one ^ other).bit_count() for one, other in pairs)


def match(a: NaivePage, b: NaivePage, policy: Policy) -> bool:
    most, least = policy.distance, policy.agreement
    if a.words < policy.short_words or b.words < policy.short_words:
        most, least = policy.short_distance, policy.short_agreement
    return agreement(a, b, policy) >= least and distance(a, b, policy) <= most  # the cheaper one first


def similarity(a: int, bits: int) -> float | None:
    if bits == 0:
        return None
    exact = max(Fraction(0), Fraction(2 * a, bits) - 1)
    return int(exact * 10_000 + Fraction(1, 2)) / 10_000


class NaiveJudge:
    """All live pages in one list; every question is a loop over it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.live: list[NaivePage] = []
        self.stream_time: int | None = None
        self.ordinal = 0
        self.found: list[NaivePage] = []
        """What the last readable page was compared with and matched, the closest first."""

    def match(self, a: NaivePage, b: NaivePage) -> bool:
        return match(a, b, self.policy)

    def rank(self, a: NaivePage, b: NaivePage) -> tuple[float, ...]:
        return -agreement(a, b, self.policy), distance(a, b, self.policy), a.ordinal

    def judge(self, page: NaivePage) -> Verdict:
        page.ordinal = self.ordinal
        self.ordinal += 1
        earlier = next((p for p in self.live if p.identity == page.identity), None)
        if page.kind is not PageKind.READABLE:
            if earlier is not None and page.kind in (PageKind.TOO_SHORT, PageKind.WITHDRAWN):
                self.live.remove(earlier)
            word = {PageKind.UNREADABLE: "unreadable", PageKind.WITHDRAWN: "withdrawn"}.get(page.kind, "too_short")
            return self.verdict(page, word)
        return self.readable(page)

    def readable(self, page: NaivePage) -> Verdict:
        policy = self.policy
        self.stream_time = page.time if self.stream_time is None else max(self.stream_time, page.time)
        edge = None if policy.window_ms is None else self.stream_time - policy.window_ms
        if edge is not None:
            self.live = [p for p in self.live if p.time > edge]
        earlier = next((p for p in self.live if p.identity == page.identity), None)
        if earlier is not None:
            self.live.remove(earlier)
        unchanged = earlier is not None and self.match(earlier, page)
        compared = self.live if policy.link == "any" else [p for p in self.live if self.canonical(p.cluster) is p]
        matches = [p for p in compared if self.match(p, page)]
        matches.sort(key=lambda p: self.rank(p, page))
        if policy.link == "canonical" and unchanged:
            matches = []
        self.found = matches
        if policy.link == "canonical":
            matches = matches[:1]
        ties = {p.cluster for p in matches}
        page.age = page.ordinal
        if unchanged:
            ties.add(earlier.cluster)
            page.age = earlier.age
        page.cluster = min(ties) if ties else page.ordinal
        for p in self.live:
            if p.cluster in ties:
                p.cluster = page.cluster
        self.live.append(page)
        word = "unchanged" if unchanged else "near_duplicate" if matches else "new"
        verdict = self.verdict(page, word, earlier if unchanged else (matches or [None])[0], ties)
        if edge is not None and page.time <= edge:
            self.live.remove(page)
        return verdict

    def candidates(self, page: NaivePage, within: int) -> list[tuple[str, int, int, bool]]:
        """(id, distance, agreement, whether it is a match) of all near pages that `readable` would meet."""
        policy, live = self.policy, self.live
        if policy.window_ms is not None:
            now = page.time if self.stream_time is None else max(self.stream_time, page.time)
            live = [p for p in live if p.time > now - policy.window_ms]
        others = [p for p in live if p.identity != page.identity]
        unchanged = any(match(p, page, policy) for p in live if p.identity == page.identity)
        compared = others
        if policy.link == "canonical":
            compared = [p for p in others if all(p.age <= q.age for q in others if q.cluster == p.cluster)]
            compared = [] if unchanged else compared
        near = [p for p in live if distance(p, page, policy) <= max(within, policy.distance)]
        near.sort(key=lambda p: (-agreement(p, page, policy), distance(p, page, policy), p.ordinal))
        return [
            (p.id, distance(p, page, policy), agreement(p, page, policy), p in compared and match(p, page, policy))
            for p in near
        ]

    def canonical(self, cluster: int) -> NaivePage:
        return min((p for p in self.live if p.cluster == cluster), key=lambda p: p.age)

    def verdict(
        self, page: NaivePage, word: str, other: NaivePage | None = None, ties: Iterable[int] = ()
    ) -> Verdict:
        judged = page.kind is PageKind.READABLE
        bits, own = self.policy.sketch_bits, lookup_values(page, self.policy)
        return Verdict(
            id=page.id,
            url=page.url,
            verdict=word,
            reason=page.reason or None,
            near_duplicate_of=other.id if word == "near_duplicate" else None,
            distance=distance(page, other, self.policy) if other else None,
            similarity=similarity(agreement(page, other, self.policy), bits) if other else None,
            cluster_id=str(page.cluster) if judged else None,
            canonical=self.canonical(page.cluster).id if judged else None,
            merged_clusters=tuple(str(c) for c in sorted(ties) if c != page.cluster),
            fingerprint="".join(f"{one:016x}" for one in own[: self.policy.fingerprints]) if judged else None,
            policy=self.policy.id,
            ordinal=page.ordinal,
            time=page.time,
            source=page.source,
        )


class NaiveTrueJudge(NaiveJudge):
    """The judge of `dedup --least-jaccard`: a match is a candidate whose text has J of at least `least`."""

    def __init__(self, policy: Policy, least: float) -> None:
        super().__init__(policy)
        self.least = least

    def match(self, a: NaivePage, b: NaivePage) -> bool:
        return match(a, b, self.policy) and jaccard(a.text, b.text) >= self.least

    def rank(self, a: NaivePage, b: NaivePage) -> tuple[float, ...]:
        return -jaccard(a.text, b.text), *super().rank(a, b)


def pages_of(
    c: FingerprintColumns, times: NDArray[np.int64], sources: Sequence[PageSource], texts: Sequence[str] = ()
) -> list[NaivePage]:
    """The pages of these columns, one object each; `texts`: what they say, where that is known."""
    return [
        NaivePage(
            id=page_id,
            url=url,
            identity=c.identity[i].tobytes(),
            kind=PageKind(int(c.kind[i])),
            reason=REASONS[c.reason[i]],
            time=int(times[i]),
            fingerprint=int(c.fingerprint[i]),
            sketch=int.from_bytes(c.sketch[i].tobytes(), "little"),
            words=int(c.words[i]),
            source=sources[i],
            text=texts[i] if texts else "",
        )
        for i, (page_id, url) in enumerate(zip(c.id_list(), c.url_list(), strict=True))
    ]


def accepted_pages(accepted: AcceptedPages) -> list[NaivePage]:
    """The accepted pages of a frame."""
    header, columns = accepted.header, accepted.columns
    sources = [PageSource(header.topic, header.partition, offset) for offset in columns.offset.tolist()]
    return pages_of(columns, accepted.time, sources)


def fingerprinted_pages(batch: FingerprintedPages) -> list[NaivePage]:
    """The pages of a batch, with their texts."""
    return pages_of(batch.columns, batch.columns.time, batch.sources, [page.text or "" for page in batch.pages])


def judge_log(frames: Iterable[tuple[int, bytes, int]], acceptor: Acceptor, policy: Policy) -> list[Verdict]:
    """The verdicts of a whole log: (frame offset, bytes, append time in ms) in order."""
    judge = NaiveJudge(policy)
    verdicts = []
    for offset, data, append_time in frames:
        accepted = acceptor.accept(offset, data, append_time)
        if isinstance(accepted, AcceptedPages):
            verdicts += [judge.judge(page) for page in accepted_pages(accepted)]
    return verdicts
