"""Applies the policy's limits on distance and agreement to arrays of pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.judge.policy import Policy


class PolicyThresholds(NamedTuple):
    """The limits of a policy; a pair with a short page has the stricter limits."""

    distance: int
    agreement: int
    short_words: int
    short_distance: int
    short_agreement: int
    further_draws: int = 0
    """How many words of the column `sketch` count for the distance as the fingerprint does."""
    further_fingerprints: int = 0
    """How many of these are further fingerprints, and no part of the sketch."""

    def confirms(
        self, distance: NDArray[np.int64], agreement: NDArray[np.int64], words: NDArray[np.uint32]
    ) -> NDArray[np.bool_]:
        """Return whether pairs (n,) match by sketch and by the rule for short pages; the distance is not checked.

        `agreement` is that of their sketches, `words` the distinct words of the shorter page.
        """
        short = (words < self.short_words) & ((distance > self.short_distance) | (agreement < self.short_agreement))
        return (agreement >= self.agreement) & ~short


def rule_of(policy: Policy) -> PolicyThresholds:
    """Return the limits of a policy."""
    return PolicyThresholds(
        policy.distance,
        policy.agreement,
        policy.short_words,
        policy.short_distance,
        policy.short_agreement,
        policy.lookups - 1,
        policy.fingerprints - 1,
    )
