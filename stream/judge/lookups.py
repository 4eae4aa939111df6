"""Lookups: what live pages say to those who ask before anything is judged. Nothing changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.judge.candidates import LivePage
from stream.judge.store import Store
from stream.model import U64
from stream.text.policy import Policy
from stream.wire.verdict import similarity


class Match(NamedTuple):
    """A live page that a text matches."""

    id: str
    distance: int
    similarity: float | None
    cluster_id: str


def matches(
    store: Store, policy: Policy, fingerprints: U64, sketches: U64, words: NDArray[np.uint32]
) -> list[Match]:
    """The pages that one page would match, closest first: its fingerprint (1,), sketch (1, S), words (1,).

    All live pages under `any`, the canonical ones under `canonical`.
    """
    found = store.index.query(fingerprints, sketches, words < policy.short_words)
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
            similarity(-disagreement, policy.sketch_bits),
            str(store.clusters.id(store.clusters.of(row))),
        )
        for disagreement, distance, _, row in sorted(matched)
    ]


def earlier(store: Store, identity: bytes) -> LivePage | None:
    """The live version of the page with this identity, which its next one would be compared with."""
    [known] = store.known(np.frombuffer(identity, np.uint64).reshape(1, 2))
    version = store.live_version(identity, known)
    return store.live_page(version.row) if version else None
