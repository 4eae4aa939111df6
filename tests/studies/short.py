"""Short pages: recall and false matches by distinct words, over a grid of distance and similarity.

Stretches of whole sentences from real pages, one a page and length; near copies by small edits; unrelated pairs are
all pairs of different pages of one length, of which those with J >= .5 do not count as false. The curve chooses
`min_words`, `short_words`, `short_distance` and `short_similarity`. The intervals of false matches take pairs as
independent, which those of one template are not: read them as the least that is uncertain.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.judge.policy import least_agreement
from simstream.model import U64
from simstream.text.recipe import Recipe
from tests.studies.context import LCTT, MSDOCS, NEWS, PairGaps, StudyContext, gap, rows
from tests.studies.edits import KINDS, near_copies, sentences
from tests.studies.measure import StudyTable, cell, pair_jaccards, share

LENGTHS = ((1, 4), (4, 8), (8, 12), (12, 16), (16, 24), (24, 32), (32, 64), (64, 128))
RANGES = ((0.9, 1.0), (0.8, 0.9), (0.7, 0.8))
RANGE_NAMES = (">= .9", ".8-.9", ".7-.8")
DISTANCES = (0, 2, 3, 4, 5, 6, 7, 8, 9, 10)
SIMILARITIES = ("0.5", "0.5625", "0.625", "0.6875", "0.75", "0.8125", "0.875")
BASES = ((NEWS, 1500), (LCTT, 750), (MSDOCS, 750))
"""Pages of each corpus and length."""
EDITED = 250
"""Pages of each length that near copies are made of, one for each range of J."""
SAME = 100
TOLERATED = 2e-6
"""Share of unrelated pairs that may match with J < .5."""
SHOWN = ((3, None), (8, None), (8, "0.5625"), (8, "0.625"), (8, "0.6875"), (8, "0.75"), (6, "0.5625"), (10, "0.75"))
"""Rules of the grid that stand in the tables; those without a similarity are for recipes without a sketch."""
_OPENING = re.compile(r"^央视网消息[^：:]{0,12}[：:]")


class LengthSample(NamedTuple):
    """The pages of one length, pairs of near copies, and the unrelated pairs that come near."""

    texts: list[str]
    near: PairGaps
    near_range: NDArray[np.int64]  # which of RANGES
    found: PairGaps
    found_jaccard: NDArray[np.float64]
    pairs: int
    """How many unrelated pairs there are, near or not."""


def run(context: StudyContext) -> dict[str, Any]:
    random = context.random("short")
    recipe = replace(context.recipe, min_words=1)
    lengths = _by_length(context, recipe, random)
    result = {}
    for (low, high), texts in zip(LENGTHS, lengths, strict=True):
        sample = _sample(context, recipe, texts, random)
        found = {"pages": len(texts), "pairs": sample.pairs, "grid": _grid(recipe, sample)}
        found["identical"] = _identical(context, texts[: context.some(SAME)])
        result[f"{low}-{high}"] = found
    return result


def _by_length(context: StudyContext, recipe: Recipe, random: Random) -> list[list[str]]:
    """Texts for each of LENGTHS: at most one of a page, and of one page of each group."""
    chosen: list[list[str]] = [[] for _ in LENGTHS]
    for corpus, most in BASES:
        first = {doc.group: doc for doc in context.docs(corpus)}
        docs = random.sample(list(first.values()), min(len(first), 3 * context.some(most)))
        tries = [part for doc in docs for part in _stretches(_OPENING.sub("", doc.text), doc.title, random)]
        owner = [number for number, doc in enumerate(docs) for _ in range(_STRETCHES + bool(doc.title))]
        words = context.prints(tries, recipe).words.tolist()
        taken: list[set[int]] = [set() for _ in LENGTHS]
        for part, page, count in zip(tries, owner, words, strict=True):
            for place, (low, high) in enumerate(LENGTHS):
                if low <= count < high and page not in taken[place] and len(taken[place]) < context.some(most):
                    taken[place].add(page)
                    chosen[place].append(part)
    for texts in chosen:
        random.shuffle(texts)
    return chosen


_STRETCHES = 12


def _stretches(text: str, title: str, random: Random) -> list[str]:
    """The title if there is one, and stretches of one to 20 sentences from some place on."""
    units = [unit.strip() for unit in sentences(text) if unit.strip()] or [text]
    parts = [title] if title else []
    for number in range(_STRETCHES):
        size = (1, 1, 1, 1, 2, 2, 3, 3, 5, 8, 12, 20)[number]
        start = random.randrange(max(1, len(units) - size + 1))
        parts.append("\n".join(units[start : start + size]))
    return parts


def _sample(context: StudyContext, recipe: Recipe, texts: list[str], random: Random) -> LengthSample:
    prints = context.prints(texts, recipe)
    made = near_copies(texts[: context.some(EDITED)], RANGES, list(KINDS), random)
    copies = context.prints([near.text for _, near in made], recipe)
    policy = context.policy(recipe)
    near = gap(rows(prints, [number for number, _ in made]), copies, policy)
    ranges = [next(i for i, (low, _) in enumerate(RANGES) if near.similarity >= low) for _, near in made]
    pairs = _close(prints.lookup_values(policy))
    found = gap(rows(prints, pairs[:, 0]), rows(prints, pairs[:, 1]), policy)
    jaccards = pair_jaccards(texts, [(int(a), int(b)) for a, b in pairs])
    return LengthSample(
        texts, near, np.array(ranges, np.int64), found, jaccards, len(texts) * (len(texts) - 1) // 2
    )


def _close(words: U64) -> NDArray[np.int64]:
    """All pairs (m, 2) within the grid's greatest distance, by looking at every one."""
    found = [np.zeros((0, 2), np.int64)]
    for i in range(len(words) - 1):
        distance = np.bitwise_count(words[i + 1 :] ^ words[i]).min(axis=1)
        others = np.flatnonzero(distance <= max(DISTANCES)) + i + 1
        found.append(np.stack([np.full(len(others), i), others], axis=1))
    return np.concatenate(found)


def _grid(recipe: Recipe, sample: LengthSample) -> list[dict[str, Any]]:
    """Recall and false matches for every distance and similarity."""
    cells = []
    for similarity in SIMILARITIES if recipe.sketch_bits else (None,):
        agreement = least_agreement(similarity, recipe.sketch_bits) if similarity else 0
        for distance in DISTANCES:
            hit = (sample.near.distance <= distance) & (sample.near.agreement >= agreement)
            false = (sample.found.distance <= distance) & (sample.found.agreement >= agreement)
            recall = {
                name: share(int(hit[sample.near_range == place].sum()), int((sample.near_range == place).sum()))
                for place, name in enumerate(RANGE_NAMES)
            }
            unlike = {
                name: share(int((false & (sample.found_jaccard < limit)).sum()), sample.pairs)
                for name, limit in (("< .5", 0.5), ("< .3", 0.3))
            }
            cells.append({"distance": distance, "similarity": similarity, "recall": recall, "false": unlike})
    return cells


def _identical(context: StudyContext, texts: list[str]) -> dict[str, Any]:
    """Return the share of pages with a second copy, under another id, that is judged a near duplicate."""
    pages = [{"id": f"{number}-{copy}", "text": text} for number, text in enumerate(texts) for copy in "ab"]
    with context.deduper() as deduper:
        verdicts = deduper.judge(pages)
    return share(sum(verdict.verdict == "near_duplicate" for verdict in verdicts[1::2]), len(texts))


def best(found: dict[str, Any], distance: int) -> dict[str, Any] | None:
    """Return the rule of greatest recall at J >= .8 within a distance, among the rules within TOLERATED.

    Of equal ones the strictest; None where no rule keeps to it.
    """
    kept = [
        rule
        for rule in found["grid"]
        if rule["distance"] <= distance and (rule["false"]["< .5"]["share"] or 0.0) <= TOLERATED
    ]
    return max(
        kept,
        key=lambda rule: (_recall(rule)["share"] or 0.0, -rule["distance"], rule["similarity"] or ""),
        default=None,
    )


def _recall(rule: dict[str, Any]) -> dict[str, Any]:
    """Over all near copies with J >= .8."""
    parts = [rule["recall"][name] for name in RANGE_NAMES[:2]]
    return share(sum(part["count"] for part in parts), sum(part["n"] for part in parts))


def tables(result: dict[str, Any]) -> list[StudyTable]:
    rules = [(d, s) for d, s in SHOWN if any(_find(found, d, s) for found in result.values())]
    columns = ("distinct words", *(f"d <= {d}, s >= {s}" if s else f"d <= {d}" for d, s in rules))
    recall, false = [], []
    for length, found in result.items():
        chosen = [rule for d, s in rules if (rule := _find(found, d, s))]
        recall.append((length, *(cell(_recall(rule)) for rule in chosen)))
        false.append((length, *(cell(rule["false"]["< .5"], 1_000_000) for rule in chosen)))
    same = [(length, f"{found['pages']:,}", cell(found["identical"])) for length, found in result.items()]
    return [
        StudyTable("Short pages: recall % of near copies with J >= .8", columns, recall),
        StudyTable("Short pages: matches with J < .5 a million pairs of different pages", columns, false),
        _best_table(result, 8),
        _best_table(result, max(DISTANCES)),
        StudyTable("A second copy of the same text is a near duplicate", ("distinct words", "pages", "%"), same),
    ]


def _find(found: dict[str, Any], distance: int, similarity: str | None) -> dict[str, Any] | None:
    wanted = (distance, similarity)
    return next((rule for rule in found["grid"] if (rule["distance"], rule["similarity"]) == wanted), None)


def _best_table(result: dict[str, Any], distance: int) -> StudyTable:
    title = f"Most recall with at most {TOLERATED * 1e6:g} false (J < .5) a million pairs, distance <= {distance}"
    head = ("distinct words", "distance", "similarity", *(f"recall J {name} %" for name in RANGE_NAMES))
    lines = [_row(length, rule) for length, found in result.items() if (rule := best(found, distance))]
    return StudyTable(title, (*head, "false a million, J < .5", "J < .3"), lines)


def _row(length: str, rule: dict[str, Any]) -> tuple[str, ...]:
    recall = (cell(rule["recall"][name]) for name in RANGE_NAMES)
    false = (cell(rule["false"][name], 1_000_000) for name in ("< .5", "< .3"))
    return (length, str(rule["distance"]), rule["similarity"] or "-", *recall, *false)
