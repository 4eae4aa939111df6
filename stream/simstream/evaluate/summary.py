"""Turns the counts of all seeds into shares, means and intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simstream.evaluate.intervals import ShareInterval, mean, share
from simstream.evaluate.measure import BINS, LOOSE, RIGHT, WRONG, CrossCorpusPairs, RecipeCounts
from simstream.evaluate.results import (
    ContenderOnCorpus,
    CrossCorpusMatches,
    DistanceCurve,
    FingerprintCost,
    JudgedCorpus,
)


def on_corpus(
    name: str,
    seeds: Sequence[RecipeCounts],
    own: int,
    distances: Sequence[int],
    sketch: bool,
    cost: FingerprintCost | None,
) -> ContenderOnCorpus:
    """Return one contender's results on one corpus, from the counts under each seed. `own`: its distance."""
    kinds = (False, True) if sketch else (False,)
    return ContenderOnCorpus(
        corpus=name,
        readable=mean([counts.readable for counts in seeds]),
        rule=curve(seeds, own, True),
        curves=[curve(seeds, distance, kind) for kind in kinds for distance in distances],
        lengths=_lengths(seeds),
        distances=_cells([counts.random for counts in seeds]),
        bits=_bits(seeds),
        judged=[_judged(link, seeds) for link in seeds[0].verdicts],
        cost=cost,
    )


def curve(seeds: Sequence[RecipeCounts], distance: int, sketch: bool) -> DistanceCurve:
    """Return recall, precision and false matches at a distance. Without the sketch all candidates are matches."""
    matched = [_matched(counts, distance, sketch) for counts in seeds]
    apart = [float(counts.apart) for counts in seeds]
    looked = [_looked_at(counts, distance, sketch) for counts in seeds]
    of = [cells.sum() for cells in matched]
    return DistanceCurve(
        distance=distance,
        sketch=sketch,
        recall=_recall(seeds, distance, sketch),
        precision=share([cells[:, RIGHT].sum() for cells in matched], of, looked),
        wrong=share([cells[0, WRONG] for cells in matched], apart),
        loose=share([cells[0, LOOSE] for cells in matched], apart),
        matched=share([cells[0].sum() for cells in matched], apart),
    )


def apart(seeds: Sequence[CrossCorpusPairs], distance: int) -> CrossCorpusMatches:
    """Return the matches between corpora within a distance."""
    sums = [np.array(counts.matched)[: distance + 1].sum(axis=0) for counts in seeds]
    pairs = [float(counts.pairs) for counts in seeds]
    return CrossCorpusMatches(
        distance=distance,
        candidates=share([float(both.sum()) for both in sums], pairs),
        matched=share([float(both[1]) for both in sums], pairs),
    )


def _matched(counts: RecipeCounts, distance: int, sketch: bool) -> NDArray[np.float64]:
    """Return matched pairs (2, 3) by same group and class of J."""
    cells = np.array(counts.matched)[: distance + 1, int(sketch) :]
    out: NDArray[np.float64] = cells.sum(axis=(0, 1))
    return out


def _looked_at(counts: RecipeCounts, distance: int, sketch: bool) -> float:
    return float(np.array(counts.looked_at)[: distance + 1, int(sketch) :].sum())


def _recall(seeds: Sequence[RecipeCounts], distance: int, sketch: bool) -> list[ShareInterval]:
    found = [np.array(counts.found)[: distance + 1, int(sketch)].sum(axis=0) for counts in seeds]
    return [
        share([float(row[at]) for row in found], [float(counts.labelled[at]) for counts in seeds])
        for at in range(len(BINS))
    ]


def _lengths(seeds: Sequence[RecipeCounts]) -> list[list[ShareInterval]]:
    rows = range(len(seeds[0].lengths))
    return [
        [
            share(
                [float(counts.lengths[row][at][0]) for counts in seeds],
                [float(counts.lengths[row][at][1]) for counts in seeds],
            )
            for at in range(len(BINS))
        ]
        for row in rows
    ]


def _cells(rows: Sequence[Sequence[int]]) -> list[ShareInterval]:
    """Return the share of each cell of its row's sum."""
    sums = [float(sum(row)) for row in rows]
    return [share([float(row[at]) for row in rows], sums) for at in range(len(rows[0]))]


def _bits(seeds: Sequence[RecipeCounts]) -> list[ShareInterval]:
    of = [float(counts.readable) for counts in seeds]
    return [share([float(counts.ones[bit]) for counts in seeds], of) for bit in range(len(seeds[0].ones))]


def _judged(link: str, seeds: Sequence[RecipeCounts]) -> JudgedCorpus:
    said = [counts.verdicts[link] for counts in seeds]
    of = [float(one.near_duplicates) for one in said]
    agreement = [one.agreement for one in said if one.agreement is not None]
    rand, precision, recall, f = (mean([one[at] for one in agreement]) for at in range(4))
    return JudgedCorpus(
        link=link,
        near_duplicates=mean(of),
        below_5=share([float(one.wrong + one.loose) for one in said], of),
        below_3=share([float(one.wrong) for one in said], of),
        clusters=mean([float(one.clusters) for one in said]),
        largest=said[0].largest,
        rand=rand,
        b_cubed_precision=precision,
        b_cubed_recall=recall,
        b_cubed_f=f,
    )
