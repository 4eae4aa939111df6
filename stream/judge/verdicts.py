"""Verdicts as they are published: names and numbers for what the resolver has decided."""

from __future__ import annotations

from collections.abc import Sequence

from stream.judge.arrivals import Arrival
from stream.judge.closest import Best
from stream.judge.clusters import Cluster
from stream.judge.store import Store
from stream.model import Verdict
from stream.text.policy import Policy
from stream.wire.verdict import similarity


class Verdicts:
    """Makes verdicts under one policy, of what a store knows at the moment."""

    def __init__(self, policy: Policy, store: Store) -> None:
        self._policy_id = policy.id
        self._sketch_bits = policy.sketch_bits
        self._store = store

    def of(
        self,
        page: Arrival,
        word: str,
        cluster: Cluster | None = None,
        merged: Sequence[int] = (),
        match: Best | None = None,
    ) -> Verdict:
        """The verdict `word`; `cluster` is the one that the page is in now, and `merged` what it took in.

        `match` is named where the word is near_duplicate, and gives distance and similarity where there is one.
        """
        store = self._store
        cluster_id = canonical = named = None
        if cluster is not None and word == "new":
            cluster_id, canonical = str(page.ordinal), page.id
        elif cluster is not None:
            cluster_id, canonical = str(store.clusters.id(cluster)), store.id_of(store.clusters.oldest(cluster))
        if match and word == "near_duplicate":
            named = store.id_of(match.row)
        return Verdict(
            id=page.id,
            url=page.url,
            verdict=word,
            reason=page.reason or None,
            near_duplicate_of=named,
            distance=match.distance if match else None,
            similarity=similarity(match.agreement, self._sketch_bits) if match else None,
            cluster_id=cluster_id,
            canonical=canonical,
            merged_clusters=tuple(map(str, merged)),
            fingerprint=f"{page.fingerprint:016x}" if cluster is not None else None,
            policy=self._policy_id,
            ordinal=page.ordinal,
            time=page.time,
            source=page.source,
        )
