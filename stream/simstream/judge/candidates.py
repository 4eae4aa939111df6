"""Decides whether two pages match, and lists the candidates of one page.

`compare` decides every pair that the judge compares itself, and `confirms` many pairs at once. The index decides
entries in the same way (`kernels/index/confirm`). Property tests compare judge and index with the quadratic judge.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.judge.numbers import ClusterId, Ordinal
from simstream.judge.pages.store import PageRecord
from simstream.judge.policy import Policy
from simstream.model import FINGERPRINT_MASK

WIDE_DISTANCE = 16
"""Bits. Pages within this distance are worth showing, matches or not."""


class RejectionRule(StrEnum):
    """Why a live page is no match of the judged page."""

    DISTANCE = "distance"
    """Too many bits differ."""
    SKETCH = "sketch"
    """Too few bits of the sketches agree."""
    SHORT = "short"
    """It would match, but one of the two is short, and the strict limits hold."""
    OWN = "own earlier version"
    """Set aside. If it matches, the page is `unchanged`; otherwise it leaves before the page is judged."""
    NOT_CANONICAL = "not canonical"
    """Under `canonical` only the oldest page of each cluster is compared."""
    UNCHANGED = "unchanged"
    """Under `canonical` a page that matches its earlier version stays in its cluster without further
    comparisons."""


class ComparedPage(Protocol):
    """The facts of a page that decide a match; `sketch` is the column `sketch` as one integer; see
    `model.lookup_values`."""

    @property
    def fingerprint(self) -> int: ...

    @property
    def sketch(self) -> int: ...

    @property
    def short(self) -> bool: ...


class IdentifiedPage(ComparedPage, Protocol):
    """A page to compare with others, with its identity."""

    @property
    def identity(self) -> bytes: ...


class LivePage(NamedTuple):
    """A live page with the id of its cluster."""

    record: PageRecord
    cluster_id: ClusterId

    @property
    def fingerprint(self) -> int:
        """As `ComparedPage`."""
        return self.record.fingerprint

    @property
    def sketch(self) -> int:
        """As `ComparedPage`."""
        return self.record.sketch

    @property
    def short(self) -> bool:
        """As `ComparedPage`."""
        return self.record.short


class PairComparison(msgspec.Struct, frozen=True, gc=False):
    """Two pages side by side; `fails` is the first limit that they exceed, None for a match."""

    distance: int
    agreement: int
    fails: RejectionRule | None


class Candidate(NamedTuple):
    """A live page beside the judged page.

    Examples:
        >>> story = "The night train stops at the mill village again after forty years, before dawn."
        >>> with Deduper() as deduper:
        ...     verdicts = deduper.judge([{"id": "a", "text": story}])
        ...     [candidate] = deduper.explain({"id": "b", "text": story}).candidates
        >>> candidate.id, candidate.accepted, candidate.distance
        ('a', True, 0)
    """

    id: str
    ordinal: Ordinal
    """The number of the verdict on that page."""
    cluster_id: str
    distance: int
    """The Hamming distance of the closest lookups of the two pages, in bits of 64; see `model.lookup_values`."""
    agreement: int
    """The number of agreeing bits of the two sketches."""
    similarity: float | None
    """The share of agreeing bits; None if the recipe has no sketch."""
    short: bool
    """Whether either page is short."""
    fails: RejectionRule | None
    """The limit that the pair exceeds (`distance`, `sketch` or `short`), or None."""
    rejected_by: RejectionRule | None
    """Another reason against the match, or `fails`."""

    @property
    def accepted(self) -> bool:
        """Whether it is a match: the page joins its cluster (under `canonical`, the closest match's cluster)."""
        return self.rejected_by is None


def measure_closeness(fingerprint: int, sketch: int, policy: Policy) -> tuple[int, int]:
    """Return distance and agreement of two pages from the XOR of their fingerprints and of their columns
    `sketch`."""
    agreement = policy.sketch_bits - (sketch >> 64 * (policy.fingerprints - 1)).bit_count()
    distance = fingerprint.bit_count()
    for _ in range(policy.lookups - 1):  # as `model.lookup_values` has them, without an object for each
        distance = min(distance, (sketch & FINGERPRINT_MASK).bit_count())
        sketch >>= 64
    return distance, agreement


def compare(page: ComparedPage, other: ComparedPage, policy: Policy) -> PairComparison:
    """Compare a pair by the policy's limits, or by the strict limits if either page is short."""
    distance, agreement = measure_closeness(
        page.fingerprint ^ other.fingerprint, page.sketch ^ other.sketch, policy
    )
    fails = None
    if distance > policy.distance:
        fails = RejectionRule.DISTANCE
    elif agreement < policy.agreement:
        fails = RejectionRule.SKETCH
    elif (page.short or other.short) and (distance > policy.short_distance or agreement < policy.short_agreement):
        fails = RejectionRule.SHORT
    return PairComparison(distance, agreement, fails)


def confirms(
    distance: NDArray[np.integer], agreement: NDArray[np.integer], short: NDArray[np.bool_], policy: Policy
) -> NDArray[np.bool_]:
    """Return whether pairs (n,) match by sketch and by the rule for short pages, as `compare` decides.

    `short` says where either page is short. It does not check that the distance is within the policy's.
    """
    strict = (distance <= policy.short_distance) & (agreement >= policy.short_agreement)
    return (agreement >= policy.agreement) & (strict | ~short)
