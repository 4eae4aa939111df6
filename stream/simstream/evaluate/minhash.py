"""Runs the peer: MinHash with locality-sensitive hashing over the same shingles, by rensa."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.evaluate.corpus import NO_GROUP
from simstream.evaluate.measure import (
    BINS,
    CorpusTruth,
    CrossCorpusPairs,
    RecipeCounts,
    apart,
    bin_of,
    classes_of_kinds,
)
from simstream.evaluate.near_pairs import MAX_PART_PAIRS, NearPlaces, sample
from simstream.evaluate.pairs import DIFFERENT
from simstream.evaluate.truth import ShingleSets
from simstream.hash_secret import process_secret
from simstream.kernels.hashing import unplace
from simstream.kernels.text.minhash import similar
from simstream.processors import in_parts

NAME: Final = "MinHash LSH"
PERMUTATIONS: Final = 128
ROWS_PER_BAND: Final = 4
"""32 bands of 4: half of the pairs of J = .42 share a band, and 99.98 % of those of J = .7."""
_ROWS: Final = 128
_CHUNK: Final = 1024
Signatures = NDArray[np.uint32]


def installed() -> bool:
    """Return whether the library is installed."""
    from importlib.util import find_spec

    return find_spec("rensa") is not None


def signatures(sets: ShingleSets, seed: int) -> Signatures:
    """Return 128 minima (n, 128) over the shingles of each text, the same in every process."""
    import rensa

    out = np.zeros((len(sets.starts) - 1, PERMUTATIONS), np.uint32)
    for at in range(0, len(out), _CHUNK):
        starts = sets.starts[at : at + _CHUNK + 1]
        values = unplace(sets.values[starts[0] : starts[-1]], process_secret())
        matrix = rensa.RMinHash.digest_matrix_from_flat_token_hashes(values, starts - starts[0], PERMUTATIONS, seed)
        out[at : at + _CHUNK] = matrix.to_rows()
    return out


def least_equal(similarity: float) -> int:
    """Return how many minima must be equal for J >= similarity."""
    return int(np.ceil(similarity * PERMUTATIONS))


def count(truth: CorpusTruth, marks: Signatures, least: int) -> RecipeCounts:
    """Count what a recipe's `count` counts, if it has a meaning here: distance 0 is a match."""
    texts = truth.sets.sizes() > 0
    places = np.flatnonzero(texts)
    group = truth.corpus.group[places]

    def kind_of(near: NearPlaces) -> NDArray[np.int64]:
        same = (group[near.a] == group[near.b]) & (group[near.a] != NO_GROUP)
        return np.asarray(2 + same, np.int64)

    found = sample(_all(marks[places], None, least, truth.threads), 4, kind_of)
    matched, looked_at = classes_of_kinds(truth, found._replace(a=places[found.a], b=places[found.b]))
    pairs, chosen = truth.pairs, truth.pairs.label != DIFFERENT
    bins = bin_of(pairs.jaccard)
    hit = chosen & texts[pairs.a] & texts[pairs.b] & _match(marks[pairs.a], marks[pairs.b], least)
    per_bin = np.bincount(bins[hit], minlength=len(BINS)).tolist()
    return RecipeCounts(
        readable=len(places),
        apart=apart(group),
        labelled=np.bincount(bins[chosen], minlength=len(BINS)).tolist(),
        found=[[per_bin, per_bin]],
        lengths=[],
        matched=matched.reshape(1, 2, 2, 3).tolist(),
        looked_at=looked_at.reshape(1, 2, 2).tolist(),
        random=[],
        ones=[],
        verdicts={},
    )


def between(
    truths: Sequence[CorpusTruth], marks: Sequence[Signatures], least: int, threads: int
) -> CrossCorpusPairs:
    """Count the matches between all pairs of corpora."""
    pairs = matched = 0
    full = [rows[truth.sets.sizes() > 0] for truth, rows in zip(truths, marks, strict=True)]
    for number, left in enumerate(full):
        for right in full[number + 1 :]:
            pairs += len(left) * len(right)
            matched += sum(len(near.a) for near in _all(left, right, least, threads))
    return CrossCorpusPairs(pairs, [[0, matched]])


def _match(left: Signatures, right: Signatures, least: int) -> NDArray[np.bool_]:
    equal = left == right
    bands = equal.reshape(len(equal), PERMUTATIONS // ROWS_PER_BAND, ROWS_PER_BAND).all(axis=2).any(axis=1)
    found: NDArray[np.bool_] = bands & (equal.sum(axis=1) >= least)
    return found


def _all(left: Signatures, right: Signatures | None, least: int, threads: int) -> Iterator[NearPlaces]:
    """Yield all matching pairs, in parts; a < b within `left` if `right` is None."""
    rows = min(_ROWS, max(8, MAX_PART_PAIRS // max(1, len(left if right is None else right))))

    def part(at: int) -> NearPlaces:
        a, b = _similar(left[at : at + rows], left[at:] if right is None else right, least)
        if right is None:
            later = b > a
            a, b = a[later], b[later] + at
        return NearPlaces(a + at, b, np.zeros(len(a), np.int64))

    yield from in_parts(part, range(0, len(left), rows), threads)


def _similar(left: Signatures, right: Signatures, least: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    room = 1 << 12
    while True:
        a, b = np.empty(room, np.int64), np.empty(room, np.int64)
        n = similar(left, right, least, ROWS_PER_BAND, a, b)
        if n <= room:
            return a[:n], b[:n]
        room = n
