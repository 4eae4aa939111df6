"""Candidates: what one page is compared with, and which rule decides about each pair.

`compare` decides about a pair wherever the judge compares two pages itself; the index says the same of entries
(`kernels/probe.confirm`), and property tests tie both to the quadratic judge.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Protocol

from stream.judge.members import LivePage
from stream.text.policy import Policy
from stream.wire.verdict import similarity

WIDE = 16
"""Bits within which pages are worth showing, whether they match or not."""


class Rule(StrEnum):
    """Why a live page is no match of the page that is judged."""

    DISTANCE = "distance"
    """Too many bits differ."""
    SKETCH = "sketch"
    """Too few bits of the sketches agree."""
    SHORT = "short"
    """It would match, but one of the two is short, and for these the limits are stricter."""
    OWN = "own earlier version"
    """Set aside: a match makes the page `unchanged`, another leaves before the page is judged."""
    NOT_CANONICAL = "not canonical"
    """Under `canonical` only the oldest page of each cluster is compared."""
    UNCHANGED = "unchanged"
    """Under `canonical` a page whose earlier version matches stays in its cluster, and is compared no further."""


class Compared(Protocol):
    """What of a page decides whether it matches; `sketch` is the sketch's bits as one integer."""

    @property
    def fingerprint(self) -> int: ...

    @property
    def sketch(self) -> int: ...

    @property
    def short(self) -> bool: ...


class Judged(Compared, Protocol):
    """A page that is compared with others, under its identity."""

    @property
    def identity(self) -> bytes: ...


class Pair(NamedTuple):
    """Two pages side by side; `fails` is the first limit that they do not keep to, None where they match."""

    distance: int
    agreement: int
    fails: Rule | None


class Candidate(NamedTuple):
    """A live page beside the one that is judged."""

    id: str
    ordinal: int
    cluster_id: str
    distance: int
    agreement: int
    similarity: float | None
    short: bool
    """Whether one of the two is short."""
    fails: Rule | None
    """The limit that the pair does not keep to, None where it keeps to all: `distance`, `sketch` or `short`."""
    rejected_by: Rule | None
    """Why it is no match all the same, or `fails`."""

    @property
    def accepted(self) -> bool:
        """Whether it is a match: the page joins its cluster (under `canonical`, that of the closest match)."""
        return self.rejected_by is None


def compare(page: Compared, other: Compared, policy: Policy) -> Pair:
    """The one rule for a pair: the policy's limits, and the strict ones where either page is short."""
    distance = (page.fingerprint ^ other.fingerprint).bit_count()
    agreement = policy.sketch_bits - (page.sketch ^ other.sketch).bit_count()
    fails = None
    if distance > policy.distance:
        fails = Rule.DISTANCE
    elif agreement < policy.agreement:
        fails = Rule.SKETCH
    elif (page.short or other.short) and (distance > policy.short_distance or agreement < policy.short_agreement):
        fails = Rule.SHORT
    return Pair(distance, agreement, fails)


def candidates(page: Judged, live: Iterable[LivePage], policy: Policy, distance: int = WIDE) -> list[Candidate]:
    """All live pages within `distance` of a page, or within the policy's where that is more, closest first.

    Closest is as for verdicts: greatest agreement, then smallest distance, then least ordinal; so the first that
    is accepted is the one that a verdict names. Linear in the live pages.
    """
    pages = list(live)
    others = [other for other in pages if other.identity != page.identity]
    own = [compare(page, other, policy) for other in pages if other.identity == page.identity]
    unchanged = any(pair.fails is None for pair in own)
    compared = _canonical(others) if policy.link == "canonical" and not unchanged else None
    found = []
    for other in pages:
        pair = compare(page, other, policy)
        if pair.distance > max(distance, policy.distance):
            continue
        rule = pair.fails
        if other.identity == page.identity:
            rule = Rule.OWN
        elif rule is None and policy.link == "canonical":
            if compared is None:
                rule = Rule.UNCHANGED
            elif other.ordinal not in compared:
                rule = Rule.NOT_CANONICAL
        found.append(_candidate(page, other, pair, rule, policy))
    return sorted(found, key=lambda one: (-one.agreement, one.distance, one.ordinal))


def _canonical(pages: Iterable[LivePage]) -> set[int]:
    """Ordinals of the oldest of each cluster."""
    oldest: dict[int, LivePage] = {}
    for page in pages:
        cluster = page.cluster.root().id
        first = oldest.setdefault(cluster, page)
        if (page.age, page.ordinal) < (first.age, first.ordinal):
            oldest[cluster] = page
    return {page.ordinal for page in oldest.values()}


def _candidate(page: Judged, other: LivePage, pair: Pair, rule: Rule | None, policy: Policy) -> Candidate:
    return Candidate(
        id=other.id,
        ordinal=other.ordinal,
        cluster_id=str(other.cluster.root().id),
        distance=pair.distance,
        agreement=pair.agreement,
        similarity=similarity(pair.agreement, policy.sketch_bits),
        short=page.short or other.short,
        fails=pair.fails,
        rejected_by=rule,
    )
