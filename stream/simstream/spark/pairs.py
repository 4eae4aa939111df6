"""Finds all matches among many fingerprints: permuted blocks, searched in parallel.

The 64 bits are cut into k + 1 blocks. Two fingerprints within distance k agree in at least one of them, so it is
enough to compare fingerprints that agree in a block: one group for each block and each value of it. Any machine can
search a group with the index's own tables. A pair is told by the first block in which it agrees. If pages have
several lookups, each is cut, the fingerprint first. The first lookup within the distance tells the pair.

Source: Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling (2007), for batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simstream.judge.candidates import confirms
from simstream.judge.policy import Policy
from simstream.model import U64
from simstream.tools.find.pairs import FingerprintPairs, near_pairs

MAX_BITS: Final = 8
"""Groups differ in so many bits of a block: enough groups for a thousand machines."""
ROWS: Final = 1 << 16
"""The number of entries that are packed together."""
MATCHES: Final = "left long, right long, distance int, agreement int"
Entry = tuple[int, int, bytes, bool]
"""The number of a page, its fingerprint as a signed number, its sketch, and whether it is short."""
Match = tuple[int, int, int, int]
"""A row of MATCHES, `left` < `right`."""


@dataclass(frozen=True, slots=True)
class FingerprintBlocks:
    """The cut of fingerprints for a distance from 0 to 16: `each` blocks of `bits` bits, from the highest on.

    A page has `count` blocks: those of all its lookups.
    """

    each: int
    bits: int
    count: int

    @classmethod
    def of(cls, distance: int, lookups: int = 1) -> FingerprintBlocks:
        return cls(distance + 1, min(MAX_BITS, 64 // (distance + 1)), lookups * (distance + 1))

    def draw(self, block: int) -> int:
        """Return the draw that the block is cut from; 0 is the fingerprint."""
        return block // self.each

    def value(self, fingerprints: U64, block: int) -> NDArray[np.int64]:
        """Return the block's bits (n,) of the fingerprints (n,) that it is cut from."""
        down = np.uint64(64 - (block % self.each + 1) * self.bits)
        return ((fingerprints >> down) & np.uint64((1 << self.bits) - 1)).astype(np.int64)


def blocked(
    entries: Iterable[Entry], blocks: FingerprintBlocks, policy: Policy
) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Yield all entries once for every block, packed by the block and its value. Memory: ROWS entries."""
    kept = iter(entries)
    while rows := list(islice(kept, ROWS)):
        packed = np.array([(n, f, s, np.frombuffer(k, np.uint64)) for n, f, k, s in rows], _packed(policy))
        for block in range(blocks.count):
            values = blocks.value(_draw(packed, blocks.draw(block)), block)
            order = np.argsort(values, kind="stable")
            starts = np.flatnonzero(np.diff(values[order], prepend=-1))
            for run in np.split(order, starts[1:]):
                yield (block, int(values[run[0]])), packed[run].tobytes()


def matches(block: int, parts: Iterable[bytes], blocks: FingerprintBlocks, policy: Policy) -> Iterator[Match]:
    """Yield all matches within a group of `blocked` that no earlier block has yielded.

    Memory: the group, its tables (see `near_pairs`), and about a million pairs at a time.
    """
    group = _EntryGroup(np.frombuffer(b"".join(parts), _packed(policy)), block, blocks, policy)
    for pairs in group.candidates():
        yield from group.confirmed(pairs)


def _packed(policy: Policy) -> np.dtype[Any]:
    sketch = ("sketch", "<u8", (policy.sketch_words,))
    return np.dtype([("number", "<i8"), ("fingerprint", "<i8"), ("short", "?"), sketch])


def _draw(entries: NDArray[Any], number: int) -> U64:
    """Return the fingerprints (n,) of one draw, 0 for the first."""
    column = entries["fingerprint"].view(np.uint64) if number == 0 else entries["sketch"][:, number - 1]
    return np.ascontiguousarray(column)


class _EntryGroup:
    """The entries of a group, in the order of the fingerprints that its block is cut from."""

    def __init__(self, entries: NDArray[Any], block: int, blocks: FingerprintBlocks, policy: Policy) -> None:
        fingerprints = _draw(entries, blocks.draw(block))
        order = np.argsort(fingerprints, kind="stable")
        self._fingerprints = fingerprints[order]
        self._numbers = entries["number"][order]
        self._short = entries["short"][order] & (policy.short_words > 0)
        self._sketches = entries["sketch"][order, policy.fingerprints - 1 :]
        self._all = np.column_stack([_draw(entries, 0)[order], entries["sketch"][order, : policy.lookups - 1]])
        self._block, self._blocks, self._policy = block, blocks, policy

    def candidates(self) -> Iterator[FingerprintPairs]:
        """Yield the places of all pairs within the distance, in parts."""
        distinct, starts = np.unique(self._fingerprints, return_index=True)
        ends = np.append(starts[1:], len(self._fingerprints))
        same = np.flatnonzero(ends - starts > 1)
        yield _later(_crossed(starts, ends, FingerprintPairs(same, same)))
        for pairs in near_pairs(distinct, self._policy.distance):
            yield _crossed(starts, ends, pairs)

    def confirmed(self, pairs: FingerprintPairs) -> Iterator[Match]:
        """Return the matches among these pairs that this block yields."""
        differ = self._fingerprints[pairs.left] ^ self._fingerprints[pairs.right]
        told = np.ones(len(differ), np.bool_)
        draw = self._blocks.draw(self._block)
        for block in range(draw * self._blocks.each, self._block):
            told &= self._blocks.value(differ, block) != 0
        apart = np.bitwise_count(self._all[pairs.left] ^ self._all[pairs.right])
        told &= (apart[:, :draw] > self._policy.distance).all(axis=1)
        left, right = pairs.left[told], pairs.right[told]
        distance = apart[told].min(axis=1).astype(np.int32)
        unlike = np.bitwise_count(self._sketches[left] ^ self._sketches[right]).sum(axis=1, dtype=np.int32)
        agreement = self._policy.sketch_bits - unlike
        good = confirms(distance, agreement, self._short[left] | self._short[right], self._policy)
        one, other = self._numbers[left[good]], self._numbers[right[good]]
        columns = (np.minimum(one, other), np.maximum(one, other), distance[good], agreement[good])
        return zip(*(column.tolist() for column in columns), strict=True)


def _crossed(starts: NDArray[np.int64], ends: NDArray[np.int64], pairs: FingerprintPairs) -> FingerprintPairs:
    """Return all pairs of a member of one run and a member of the other."""
    width = (ends - starts)[pairs.right]
    each = (ends - starts)[pairs.left] * width
    which = np.repeat(np.arange(len(each)), each)
    step = np.arange(len(which)) - np.repeat(np.cumsum(each) - each, each)
    left = starts[pairs.left][which] + step // width[which]
    return FingerprintPairs(left, starts[pairs.right][which] + step % width[which])


def _later(pairs: FingerprintPairs) -> FingerprintPairs:
    chosen = pairs.left < pairs.right
    return FingerprintPairs(pairs.left[chosen], pairs.right[chosen])
