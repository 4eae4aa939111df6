"""Finds the last of a page's versions, and since when it has been in the collection."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Final

from simstream.judge.candidates import measure_closeness
from simstream.judge.policy import Policy
from simstream.model import FINGERPRINT_MASK, PageKind
from simstream.spark.pairs import Entry

ENTRIES: Final = "number long, fingerprint long, sketch binary, short boolean"
Version = tuple[int, int, int, bytes, bool]
"""Number, kind, fingerprint, sketch, and whether it is short."""


def newest(versions: Sequence[Version], policy: Policy) -> Iterator[Entry]:
    """Yield the last version, or nothing if it has nothing to compare. `versions` are of VERSION_KINDS, by number.

    Its number is that of the first version since which the page is unchanged.
    """
    last = versions[-1]
    if last[1] != PageKind.READABLE:
        return
    since = last
    for earlier in reversed(versions[:-1]):
        if earlier[1] != PageKind.READABLE or not _match(earlier, since, policy):
            break
        since = earlier
    yield since[0], last[2], last[3], last[4]


def _match(one: Version, other: Version, policy: Policy) -> bool:
    sketches = (int.from_bytes(version[3], "little") for version in (one, other))
    distance, agreement = measure_closeness((one[2] ^ other[2]) & FINGERPRINT_MASK, operator.xor(*sketches), policy)
    if policy.short_words and (one[4] or other[4]):
        return distance <= policy.short_distance and agreement >= policy.short_agreement
    return distance <= policy.distance and agreement >= policy.agreement
