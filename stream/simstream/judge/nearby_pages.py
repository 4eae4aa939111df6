"""Lists every live page near a page that is about to be judged, with the rule for each, for `explain`.

It compares every live page and does not use the index. So it shows what the index would have missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.judge.candidates import (
    WIDE_DISTANCE,
    Candidate,
    IdentifiedPage,
    LivePage,
    RejectionRule,
    compare,
)
from simstream.judge.live_pages import LivePages
from simstream.judge.numbers import ClusterRef, Ordinal, Row
from simstream.judge.policy import Policy
from simstream.model import lookup_values
from simstream.wire.verdict import similarity


class NearbyPages(NamedTuple):
    """The live pages near a page, if it were judged now."""

    candidates: list[Candidate]
    """The pages that it would be compared with, closest first, each with the deciding rule; none if there is
    nothing to compare."""
    earlier: LivePage | None
    """The live version of the page with its identity."""
    live_pages: int
    stream_time: int | None
    """Stream time in ms since 1970, before the page's own time counts; None before the first readable page."""


def nearby(
    page: IdentifiedPage, time: int, store: LivePages, policy: Policy, distance: int = WIDE_DISTANCE
) -> list[Candidate]:
    """Return all live pages within `distance` of a readable page of this time, or within the policy's greater
    distance.

    They come closest first, as for verdicts: greatest agreement, then smallest distance, then least ordinal. So the
    verdict names the first accepted one. Cost: linear in the live pages, a few ns each.
    """
    edge = _edge(store, time)
    own: list[tuple[Row, LivePage]] = []
    others: list[tuple[Row, LivePage]] = []
    words = lookup_values(page.fingerprint, page.sketch, policy.lookups)
    for row in _rows_within(words, store, max(distance, policy.distance)):
        other = store.live_page(row)
        if edge is None or other.record.time > edge:
            (own if other.record.identity == page.identity else others).append((row, other))
    unchanged = any(compare(page, other, policy).fails is None for _, other in own)
    found = [candidate_of(page, other, policy, RejectionRule.OWN) for _, other in own]
    oldest: dict[ClusterRef, Ordinal] = {}
    for row, other in others:
        rule = None
        if policy.link == "canonical":
            cluster = store.clusters.of(row)
            if unchanged:
                rule = RejectionRule.UNCHANGED
            elif other.record.ordinal != oldest.setdefault(cluster, _oldest(page, cluster, edge, store)):
                rule = RejectionRule.NOT_CANONICAL
        found.append(candidate_of(page, other, policy, rule))
    return sorted(found, key=lambda one: (-one.agreement, one.distance, one.ordinal))


def _edge(store: LivePages, time: int) -> int | None:
    """Return the time up to which pages leave once a readable page of this time has come."""
    if store.window_ms is None:
        return None
    return (time if store.stream_time is None else max(time, store.stream_time)) - store.window_ms


def _rows_within(words: Sequence[int], store: LivePages, distance: int) -> Iterator[Row]:
    """Return the rows of the live pages with a lookup within the distance."""
    wanted = np.array(words, np.uint64)
    for colds, records in store.pages.chunks():
        near: NDArray[np.bool_] = np.bitwise_count(records["fingerprint"] ^ wanted[0]) <= distance
        for i in range(1, len(wanted)):
            near |= np.bitwise_count(records["sketch"][:, i - 1] ^ wanted[i]) <= distance
        if near.any():
            rows = records["row"][near]
            yield from rows[store.rows.are_live(rows, colds[near])].tolist()


def _oldest(page: IdentifiedPage, cluster: ClusterRef, edge: int | None, store: LivePages) -> Ordinal:
    """Return the ordinal of the oldest member besides the page's own earlier version, once the window has moved."""
    members = (store.record(row) for row in store.clusters.members(cluster))
    return min(
        (record.age, record.ordinal)
        for record in members
        if record.identity != page.identity and (edge is None or record.time > edge)
    )[1]


def candidate_of(
    page: IdentifiedPage, other: LivePage, policy: Policy, rule: RejectionRule | None = None
) -> Candidate:
    """Return one candidate. `rule` counts if the pair is within all limits, or for the page's own earlier
    version."""
    pair = compare(page, other, policy)
    return Candidate(
        id=other.record.id,
        ordinal=other.record.ordinal,
        cluster_id=str(other.cluster_id),
        distance=pair.distance,
        agreement=pair.agreement,
        similarity=similarity(pair.agreement, policy.sketch_bits),
        short=page.short or other.short,
        fails=pair.fails,
        rejected_by=rule if rule is RejectionRule.OWN or pair.fails is None else pair.fails,
    )
