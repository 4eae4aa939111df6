"""Judges a run of files by the true J of the texts: `dedup --least-jaccard`.

It follows the rules of "A page's life" and of clusters, as the judge does. Only the match of two pages is another
one, and the closest match is that of the greatest J. Texts are read again from a temporary file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from simstream.closing import Closing
from simstream.deduper import FingerprintedPages
from simstream.judge.accepted_page import AcceptedPage, accepted_pages
from simstream.judge.numbers import Ordinal
from simstream.judge.policy import Policy
from simstream.model import ENDING_KINDS, VERDICT_OF_KIND, PageKind, Verdict, VerdictKind, fingerprint_hex
from simstream.tools.dedup.true_clusters import ClusteredPage, LiveClusters
from simstream.tools.dedup.true_matches import LeastJaccard, TextMatch, TrueMatcher
from simstream.wire.verdict import similarity


class TruePair(NamedTuple):
    """Two pages whose texts are alike: `a` came before `b`."""

    a: str
    b: str
    distance: int
    similarity: float | None
    jaccard: float


class _Match(NamedTuple):
    """A match with one live page. The least is the closest; ordinals differ, so that pages are not compared."""

    minus_jaccard: float
    minus_agreement: int
    distance: int
    ordinal: int
    page: ClusteredPage
    text: TextMatch


class TrueJudge(Closing):
    """Judges pages by the true J. `told` hears all pairs of each page with earlier pages, the closest first.

    Memory: that of `TrueMatcher` and `LiveClusters`. Cost: about 60 ns of a core a character of each candidate.
    """

    def __init__(
        self, policy: Policy, rule: LeastJaccard, told: Callable[[Sequence[TruePair]], None] | None = None
    ) -> None:
        self.matcher = TrueMatcher(policy, rule)
        self.policy = self.matcher.policy
        self._policy_id = rule.policy_id(self.policy)
        self._told = told
        self._any = policy.link == "any"
        self._live = LiveClusters(policy)
        self._ordinal = 0

    def stream(
        self, batches: Iterable[FingerprintedPages], seen: Callable[[FingerprintedPages], None]
    ) -> Iterator[Verdict]:
        """Yield one verdict for each page, in order. `seen` is called with each batch before its verdicts come."""
        for batch in batches:
            seen(batch)
            texts = self.matcher.note(batch)
            none_short = np.zeros(len(texts), np.bool_)
            pages = accepted_pages(
                batch.columns, batch.columns.time, none_short, Ordinal(self._ordinal), batch.sources
            )
            found = self.matcher.matches(batch, texts)
            for page, text, matches in zip(pages, texts.tolist(), found, strict=True):
                self._live.begin(page.ordinal)
                yield self._readable(page, text, matches) if page.kind == PageKind.READABLE else self._other(page)
            self._ordinal += len(texts)

    def close(self) -> None:
        """Remove the temporary file. May be called twice."""
        self.matcher.close()

    def _other(self, page: AcceptedPage) -> Verdict:
        if page.kind in ENDING_KINDS and (earlier := self._live.page(page.id)):
            self._live.leave(earlier)
        return self._verdict(page, VERDICT_OF_KIND[PageKind(page.kind)])

    def _readable(self, page: AcceptedPage, text: int, matches: Sequence[TextMatch]) -> Verdict:
        live = self._live
        live.advance(page.time)
        earlier, same = live.page(page.id), None
        if earlier:
            same = next((match for match in matches if match.text == earlier.text), None)
            live.leave(earlier)
        found = [] if same and not self._any else self._closest_pages(matches)
        ties = {live.cluster(one.page) for one in (found if self._any else found[:1])}
        if earlier and same:
            ties.add(live.cluster(earlier))
        cluster = min(ties, default=page.ordinal)
        merged = sorted(ties - {cluster})
        live.merge(cluster, merged)
        age = earlier.age if earlier and same else page.ordinal
        own = ClusteredPage(page.id, page.ordinal, age, page.time, text, cluster)
        self._tell(page.id, found)
        live.add(own)
        kind = VerdictKind.UNCHANGED if same else VerdictKind.NEAR_DUPLICATE if found else VerdictKind.NEW
        verdict = self._verdict(page, kind, own, merged, same, found[0] if found else None)
        if live.is_late(page.time):
            live.leave(own)
        return verdict

    def _closest_pages(self, matches: Sequence[TextMatch]) -> list[_Match]:
        """Return the first page that stands for each text, the closest first."""
        first = ((match, self._live.first(match.text)) for match in matches)
        return sorted(_match_of(match, page) for match, page in first if page)

    def _tell(self, page_id: str, found: Sequence[_Match]) -> None:
        if self._told is not None and found:
            every = sorted(_match_of(one.text, page) for one in found for page in self._live.all_of(one.text.text))
            self._told([TruePair(one.page.id, page_id, *self._facts(one.text), one.text.jaccard) for one in every])

    def _facts(self, match: TextMatch) -> tuple[int, float | None]:
        return match.distance, similarity(match.agreement, self.policy.sketch_bits)

    def _verdict(
        self,
        page: AcceptedPage,
        kind: VerdictKind,
        own: ClusteredPage | None = None,
        merged: Sequence[int] = (),
        same: TextMatch | None = None,
        best: _Match | None = None,
    ) -> Verdict:
        match = same or (best.text if best else None)
        distance, alike = self._facts(match) if match else (None, None)
        return Verdict(
            id=page.id,
            url=page.url,
            verdict=kind,
            reason=page.reason or None,
            near_duplicate_of=best.page.id if best and not same else None,
            distance=distance,
            similarity=alike,
            cluster_id=str(own.cluster) if own else None,
            canonical=self._live.canonical(own).id if own else None,
            merged_clusters=tuple(map(str, merged)),
            fingerprint=fingerprint_hex(page.fingerprint, page.sketch, self.policy.fingerprints) if own else None,
            policy=self._policy_id,
            ordinal=page.ordinal,
            time=page.time,
            source=page.source,
        )


def _match_of(match: TextMatch, page: ClusteredPage) -> _Match:
    return _Match(-match.jaccard, -match.agreement, match.distance, page.ordinal, page, match)
