"""Builds the published verdict from what the resolver decided."""

from __future__ import annotations

from collections.abc import Sequence

from simstream.judge.accepted_page import AcceptedPage
from simstream.judge.best_match import BestMatch
from simstream.judge.live_pages import LivePages
from simstream.judge.numbers import NO_AGE, NO_CLUSTER, Age, ClusterId, ClusterRef, is_lone
from simstream.judge.policy import Policy
from simstream.model import Verdict, VerdictKind, fingerprint_hex
from simstream.wire.verdict import similarity


class VerdictMaker:
    """Makes verdicts under one policy, from the present state of a store."""

    def __init__(self, policy: Policy, store: LivePages) -> None:
        self._policy_id = policy.id
        self._fingerprints = policy.fingerprints
        bits = policy.sketch_bits
        self._similarity = [similarity(agreement, bits) for agreement in range(bits + 1)]
        self._store = store

    def of(
        self,
        page: AcceptedPage,
        kind: VerdictKind,
        cluster: ClusterRef = NO_CLUSTER,
        age: Age = NO_AGE,
        merged: Sequence[ClusterId] = (),
        match: BestMatch | None = None,
    ) -> Verdict:
        """Return the verdict `kind` on a page. The page is in `cluster` (0 for none), which it joined at the
        ordinal `age`.

        `merged` are the ids of the clusters that `cluster` took in. If there is a `match`, it gives distance and
        similarity; a near duplicate also names it.
        """
        store = self._store
        cluster_id = canonical = named = None
        if is_lone(cluster):  # the page is alone: no record needs to be read
            cluster_id, canonical = str(age), page.id
        elif cluster:
            cluster_id, canonical = str(store.clusters.id(cluster)), store.id_of(store.clusters.oldest(cluster))
        if match and kind == VerdictKind.NEAR_DUPLICATE:
            named = store.id_of(match.row)
        return Verdict(
            id=page.id,
            url=page.url,
            verdict=kind,
            reason=page.reason or None,
            near_duplicate_of=named,
            distance=match.distance if match else None,
            similarity=self._similarity[match.agreement] if match else None,
            cluster_id=cluster_id,
            canonical=canonical,
            merged_clusters=tuple(map(str, merged)) if merged else (),
            fingerprint=fingerprint_hex(page.fingerprint, page.sketch, self._fingerprints) if cluster else None,
            policy=self._policy_id,
            ordinal=page.ordinal,
            time=page.time,
            source=page.source,
        )
