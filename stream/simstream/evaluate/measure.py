"""Counts pairs and verdicts of one recipe under one seed over one corpus."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.evaluate.clusters import compare
from simstream.evaluate.corpus import NO_GROUP, Corpus
from simstream.evaluate.fingerprints import CorpusPrints
from simstream.evaluate.near_pairs import NearPlaces, SampledPairs, sample, within
from simstream.evaluate.pairs import DIFFERENT, LabelledPairs
from simstream.evaluate.truth import ShingleSets, jaccard, shingle_sets
from simstream.evaluate.verdicts import CorpusVerdicts
from simstream.judge.candidates import confirms
from simstream.judge.policy import Policy

BINS: Final = (0.9, 0.8, 0.7, 0.6, 0.5, 0.0)
"""Where each bin of J begins, from the top."""
BIN_NAMES: Final = (">= .9", ".8-.9", ".7-.8", ".6-.7", ".5-.6", "< .5")
WRONG, LOOSE, RIGHT = range(3)
"""The class of a match: J below .3, from .3 to .5, and from .5 on."""
CLASSES: Final = (0.3, 0.5)
LENGTHS: Final = (8, 16, 32, 64, 128, 256)
"""Where the bins of distinct words end; the last has no end."""
LENGTH_NAMES: Final = ("< 8", "8-16", "16-32", "32-64", "64-128", "128-256", ">= 256")
RANDOM_PAIRS: Final = 1_000_000
MAX_LARGEST_CLUSTERS: Final = 5


class LinkRuleVerdicts(msgspec.Struct, frozen=True):
    """The result of judging a corpus under one link rule."""

    near_duplicates: int
    wrong: int
    """Verdicts that name a page with J < .3."""
    loose: int
    """With J from .3 to .5."""
    clusters: int
    largest: list[int]
    agreement: list[float] | None
    """Adjusted Rand index; B-cubed precision, recall and F. None without groups."""


class RecipeCounts(msgspec.Struct, frozen=True):
    """The counts. Lists by distance have a place for each distance from 0 to the greatest one measured."""

    readable: int
    apart: int
    """Pairs of readable pages of different groups; all pairs if there are no groups."""
    labelled: list[int]
    """Labelled pairs by bin of J."""
    found: list[list[list[int]]]
    """The found ones by distance, without and with the sketch, by bin: pairs at exactly this distance."""
    lengths: list[list[list[int]]]
    """By distinct words of the shorter page, by bin: pairs that match under the policy, and all."""
    matched: list[list[list[list[float]]]]
    """All pairs of the corpus by distance, confirmed (0, 1), same group (0, 1) and class of J. It is an estimate if
    only a sample was examined."""
    looked_at: list[list[list[int]]]
    """The number of examined pairs."""
    random: list[int]
    """Random pairs of different groups, by distance."""
    ones: list[int]
    """The number of fingerprints with a 1, by bit."""
    verdicts: dict[str, LinkRuleVerdicts]
    """By link rule."""


class CrossCorpusPairs(msgspec.Struct, frozen=True):
    """Pairs of pages of different corpora: all, and by distance the unconfirmed and the confirmed ones."""

    pairs: int
    matched: list[list[int]]


class CorpusTruth:
    """The facts about a corpus that no recipe changes. Shingles are made when they are first needed."""

    def __init__(self, corpus: Corpus, threads: int) -> None:
        self.corpus = corpus
        self.pairs = LabelledPairs.none()
        self.threads = threads

    @cached_property
    def sets(self) -> ShingleSets:
        """Return the shingles of each page's text."""
        return shingle_sets(self.corpus.texts(), self.threads)


class LabelledResult(NamedTuple):
    """The decisions of a policy about the labelled pairs."""

    hit: NDArray[np.bool_]  # (n,) both pages are readable
    distance: NDArray[np.int64]
    confirmed: NDArray[np.bool_]


def count(
    truth: CorpusTruth,
    prints: CorpusPrints,
    policy: Policy,
    reach: int,
    verdicts: dict[str, CorpusVerdicts],
) -> RecipeCounts:
    """Count everything. `reach`: the greatest distance. `judged`: the judge's verdicts by link rule."""
    labelled = _labelled(truth.pairs, prints, policy)
    chosen = truth.pairs.label != DIFFERENT
    bins = bin_of(truth.pairs.jaccard)
    near = all_pairs(truth, prints, policy, reach)
    matched, looked_at = classes_of_kinds(truth, near)
    random = _random(truth.corpus, prints)
    return RecipeCounts(
        readable=int(prints.readable.sum()),
        apart=apart(truth.corpus.group[prints.readable]),
        labelled=np.bincount(bins[chosen], minlength=len(BINS)).tolist(),
        found=_found(labelled, bins, chosen, reach),
        lengths=_lengths(truth.pairs, prints, policy, labelled, chosen),
        matched=matched.reshape(reach + 1, 2, 2, 3).tolist(),
        looked_at=looked_at.reshape(reach + 1, 2, 2).tolist(),
        random=random.tolist(),
        ones=_ones(prints.fingerprint[prints.readable]).tolist(),
        verdicts={link: _verdicts(truth, said) for link, said in verdicts.items()},
    )


def between(all_prints: Sequence[CorpusPrints], policy: Policy, reach: int, threads: int) -> CrossCorpusPairs:
    """Count the matches between all pairs of corpora. By assumption none is a near duplicate."""
    counts = np.zeros(2 * (reach + 1), np.int64)
    pairs = 0
    for number, left in enumerate(all_prints):
        for right in all_prints[number + 1 :]:
            one, other = left.readable, right.readable
            pairs += int(one.sum()) * int(other.sum())
            draws = [prints.lookup_values(policy.lookups - 1) for prints in (left, right)]
            first = policy.fingerprints - 1
            sketches = left.sketch[one, first:], right.sketch[other, first:]
            for near in within(draws[0][one], draws[1][other], reach, threads):
                agreement = _agreement(sketches[0], near.a, sketches[1], near.b)
                words = np.minimum(left.words[one][near.a], right.words[other][near.b])
                confirmed = confirms(near.distance, agreement, words < policy.short_words, policy)
                counts += np.bincount(2 * near.distance + confirmed, minlength=len(counts))
    return CrossCorpusPairs(pairs, counts.reshape(reach + 1, 2).tolist())


def bin_of(similarity: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bin (n,) of each J, 0 for the highest."""
    return np.asarray(np.searchsorted(-np.array(BINS[:-1]), -similarity, side="left"), np.int64)


def class_of(similarity: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return WRONG, LOOSE or RIGHT (n,) for each J."""
    return np.searchsorted(CLASSES, similarity, side="right").astype(np.int64)


def all_pairs(truth: CorpusTruth, prints: CorpusPrints, policy: Policy, reach: int) -> SampledPairs:
    """Count all pairs of readable pages within `reach`, by 4 distance + 2 confirmed + same group."""
    places = np.flatnonzero(prints.readable)
    sketch, words = prints.sketch[places, policy.fingerprints - 1 :], prints.words[places]
    group = truth.corpus.group[places]

    def kind_of(near: NearPlaces) -> NDArray[np.int64]:
        agreement = _agreement(sketch, near.a, sketch, near.b)
        short = np.minimum(words[near.a], words[near.b]) < policy.short_words
        confirmed = confirms(near.distance, agreement, short, policy)
        same = (group[near.a] == group[near.b]) & (group[near.a] != NO_GROUP)
        return np.asarray(4 * near.distance + 2 * confirmed + same, np.int64)

    parts = within(prints.lookup_values(policy.lookups - 1)[places], None, reach, truth.threads)
    found = sample(parts, 4 * (reach + 1), kind_of)
    return found._replace(a=places[found.a], b=places[found.b])


def _agreement(
    left: NDArray[np.uint64], a: NDArray[np.int64], right: NDArray[np.uint64], b: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many sketch bits agree (n,)."""
    different = np.bitwise_count(left[a] ^ right[b]).sum(axis=1, dtype=np.int64)
    return np.asarray(64 * left.shape[1] - different, np.int64)


def _labelled(pairs: LabelledPairs, prints: CorpusPrints, policy: Policy) -> LabelledResult:
    a, b = pairs.a, pairs.b
    draws, sketch = prints.lookup_values(policy.lookups - 1), prints.sketch[:, policy.fingerprints - 1 :]
    distance = np.bitwise_count(draws[a] ^ draws[b]).min(axis=1).astype(np.int64)
    agreement = _agreement(sketch, a, sketch, b)
    short = np.minimum(prints.words[a], prints.words[b]) < policy.short_words
    confirmed = confirms(distance, agreement, short, policy)
    return LabelledResult(prints.readable[a] & prints.readable[b], distance, confirmed)


def _found(
    labelled: LabelledResult, bins: NDArray[np.int64], chosen: NDArray[np.bool_], reach: int
) -> list[list[list[int]]]:
    hit = labelled.hit & chosen & (labelled.distance <= reach)
    confirmed = hit & labelled.confirmed
    shape = (reach + 1, len(BINS))
    parts = [_tally(shape, labelled.distance[which], bins[which]) for which in (hit, confirmed)]
    listed: list[list[list[int]]] = np.stack(parts, axis=1).tolist()
    return listed


def _lengths(
    pairs: LabelledPairs,
    prints: CorpusPrints,
    policy: Policy,
    labelled: LabelledResult,
    chosen: NDArray[np.bool_],
) -> list[list[list[int]]]:
    words = np.minimum(prints.words[pairs.a], prints.words[pairs.b])
    row, column = np.searchsorted(LENGTHS, words, side="right"), bin_of(pairs.jaccard)
    hit = chosen & labelled.hit & labelled.confirmed & (labelled.distance <= policy.distance)
    shape = (len(LENGTHS) + 1, len(BINS))
    parts = [_tally(shape, row[which], column[which]) for which in (hit, chosen)]
    listed: list[list[list[int]]] = np.stack(parts, axis=2).tolist()
    return listed


def classes_of_kinds(truth: CorpusTruth, near: SampledPairs) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the number of pairs by kind and class (kinds, 3), scaled up from the kept pairs, and the kept ones."""
    classes = class_of(jaccard(truth.sets, near.a, near.b, truth.threads))
    kept = _tally((len(near.counts), 3), near.kind, classes)
    looked_at = kept.sum(axis=1)
    return kept * (near.counts / np.maximum(looked_at, 1))[:, None], looked_at


def _tally(shape: tuple[int, int], row: NDArray[np.integer], column: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return how often each (row, column) occurs."""
    return np.bincount(row * np.int64(shape[1]) + column, minlength=shape[0] * shape[1]).reshape(shape)


def apart(group: NDArray[np.int32]) -> int:
    """Return the number of pairs of pages of different groups."""
    sizes = np.unique(group[group != NO_GROUP], return_counts=True)[1].astype(np.int64)
    return int(len(group) * (len(group) - 1) // 2 - (sizes * (sizes - 1) // 2).sum())


def _random(corpus: Corpus, prints: CorpusPrints) -> NDArray[np.int64]:
    places = np.flatnonzero(prints.readable)
    if len(places) < 2:
        return np.zeros(65, np.int64)
    chance = np.random.default_rng(0)
    a, b = places[chance.integers(0, len(places), (2, RANDOM_PAIRS))]
    group = corpus.group
    apart = (a != b) & ((group[a] != group[b]) | (group[a] == NO_GROUP))
    distance = np.bitwise_count(prints.fingerprint[a[apart]] ^ prints.fingerprint[b[apart]])
    return np.bincount(distance, minlength=65)


def _ones(fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
    bits = range(64)
    return np.array([int(((fingerprints >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in bits], np.int64)


def _verdicts(truth: CorpusTruth, verdicts: CorpusVerdicts) -> LinkRuleVerdicts:
    classes = np.bincount(class_of(jaccard(truth.sets, verdicts.page, verdicts.named, truth.threads)), minlength=3)
    in_cluster = verdicts.cluster >= 0
    sizes = np.sort(np.unique(verdicts.cluster[in_cluster], return_counts=True)[1])[::-1]
    both = in_cluster & (truth.corpus.group != NO_GROUP)
    agreement = compare(verdicts.cluster[both], truth.corpus.group[both])
    return LinkRuleVerdicts(
        near_duplicates=len(verdicts.page),
        wrong=int(classes[WRONG]),
        loose=int(classes[LOOSE]),
        clusters=len(sizes),
        largest=sizes[:MAX_LARGEST_CLUSTERS].tolist(),
        agreement=None if agreement is None else list(agreement),
    )
