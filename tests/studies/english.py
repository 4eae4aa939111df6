"""English, and pages of Chinese and English: recall by J and distance, false matches, and what weights do to them.

Pages: main content of the WARC files' English pages, each text once, cut at sentence ends into parts of up to 400
words. Near copies by every kind of edit, evenly over the bins of J. Mixed pages: sentences of a news item and of an
English part in turn. Other weights are tried over several seeds, because hash luck is larger than their effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
from fastwarc.warc import ArchiveIterator, WarcRecordType
from numpy.typing import NDArray

from simstream.judge.policy import Policy
from simstream.text.extraction.extract import extract_one
from simstream.text.recipe import Recipe
from tests import corpora
from tests.studies.context import NEWS, PairGaps, StudyContext, TextFingerprints, gap, rows
from tests.studies.edits import KINDS, NearCopy, near_copies, sentences
from tests.studies.measure import BIN_NAMES, BINS, StudyTable, bin_of, cell, pair_jaccards, share

RANGES = tuple((low, min(high, 1.0)) for low, high in BINS[:5])
MIN_WORDS, MAX_WORDS = 50, 400
COPIES = 300
"""Near copies for each range, of English and of mixed pages."""
MIXED = 150
SEEDS = 3
LANGUAGES = ("english", "mixed")
_WORD = re.compile(r"[A-Za-z']+")
_COMMON = frozenset("the of and to in a is for on that".split())  # noqa: SIM905 - a sentence's worth of words
_ENGLISH = 0.1
"""Share of these words from which a page counts as English."""


class EnglishPairs(NamedTuple):
    """Texts with their near copies, and the pairs of texts that have nothing to do with one another."""

    texts: list[str]
    near: list[tuple[int, NearCopy]]
    unrelated: NDArray[np.int64]  # (m, 2)
    unrelated_jaccard: NDArray[np.float64]


def run(context: StudyContext) -> dict[str, Any]:
    random = context.random("english")
    pages = list(_pages())
    parts = [(number, part) for number, page in enumerate(pages) for part in _parts(page)]
    parts = random.sample(parts, min(len(parts), context.some(len(parts))))
    english = _pairs([text for _, text in parts], [page for page, _ in parts], context, random)
    mixed_texts = _mixed(context, [text for _, text in parts], random)
    mixed = _pairs(mixed_texts, list(range(len(mixed_texts))), context, random)
    seeds = range(SEEDS if context.limit is None else 1)
    return {
        "pages": len(pages),
        "parts": len(parts),
        "english": _measure(context, english, context.recipe, context.prints),
        "mixed": _measure(context, mixed, context.recipe, context.prints),
        "variants": {
            name: _pooled([_variant(context, (english, mixed), recipe, seed) for seed in seeds])
            for name, recipe in variants(context.recipe).items()
        },
    }


def variants(recipe: Recipe) -> dict[str, Recipe]:
    """The recipe with other weights."""
    found = {
        "as it is": recipe,
        "default_weight / 2": replace(recipe, default_weight=recipe.default_weight / 2),
        "default_weight x 1.5": replace(recipe, default_weight=recipe.default_weight * 1.5),
        "number_weight x 3": replace(recipe, number_weight=recipe.number_weight * 3),
        "number_weight / 3": replace(recipe, number_weight=recipe.number_weight / 3),
    }
    without = tuple(name for name in recipe.stop_words if name != "en")
    if "en" in recipe.stop_words:
        return found | {"English stop words in": replace(recipe, stop_words=without)}
    return found | {"English stop words out": replace(recipe, stop_words=(*recipe.stop_words, "en"))}


def _pages() -> Iterator[str]:
    """Main content of English pages, each text once."""
    root, seen = corpora.folder(), set[str]()
    if root is None:
        raise FileNotFoundError("SIMSTREAM_CORPORA names no folder")
    for path in sorted((root / "warc").glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, record_types=WarcRecordType.response):
                kind = (record.http_headers.get("Content-Type") or "") if record.http_headers else ""
                if "html" in kind and record.http_headers.status_code == 200:
                    text = extract_one(record.reader.read(), kind).text or ""
                    if text not in seen and _is_english(text):
                        seen.add(text)
                        yield text


def _is_english(text: str) -> bool:
    words = _WORD.findall(text)
    return len(words) >= MIN_WORDS and sum(word.lower() in _COMMON for word in words) >= _ENGLISH * len(words)


def _parts(text: str) -> Iterator[str]:
    """Stretches of whole sentences with up to MAX_WORDS words; a rest of fewer than MIN_WORDS is dropped."""
    part, count = "", 0
    for unit in sentences(text):
        size = len(_WORD.findall(unit))
        if count + size > MAX_WORDS and count >= MIN_WORDS:
            yield part
            part, count = "", 0
        part, count = part + unit, count + size
    if count >= MIN_WORDS:
        yield part


def _mixed(context: StudyContext, english: list[str], random: Random) -> list[str]:
    """Pages with sentences of a news item and of an English part in turn."""
    docs = context.docs(NEWS)
    chosen = random.sample(docs, min(len(docs), context.some(MIXED)))
    made = []
    for number, doc in enumerate(chosen):
        ours, theirs = sentences(doc.text)[:12], sentences(english[number % len(english)])
        start = random.randrange(max(1, len(theirs) - len(ours)))
        turn = zip(ours, theirs[start : start + len(ours)], strict=False)
        made.append("\n".join(f"{a.strip()} {b.strip()}" for a, b in turn))
    return made


def _pairs(texts: list[str], owner: list[int], context: StudyContext, random: Random) -> EnglishPairs:
    """Near copies in every range, and all pairs of texts of different owners."""
    near: list[tuple[int, NearCopy]] = []
    for turn in range(max(1, -(-COPIES // max(1, len(texts)))) if context.limit is None else 1):
        kinds = list(KINDS)[turn % len(KINDS) :] + list(KINDS)[: turn % len(KINDS)]
        near += near_copies(texts, RANGES, kinds, random)
    pairs = [(a, b) for a in range(len(texts)) for b in range(a + 1, len(texts)) if owner[a] != owner[b]]
    return EnglishPairs(texts, near, np.array(pairs, np.int64).reshape(-1, 2), pair_jaccards(texts, pairs))


def _gaps(
    pairs: EnglishPairs, prints: TextFingerprints, copies: TextFingerprints, policy: Policy
) -> tuple[PairGaps, PairGaps]:
    near = gap(rows(prints, [number for number, _ in pairs.near]), copies, policy)
    return near, gap(rows(prints, pairs.unrelated[:, 0]), rows(prints, pairs.unrelated[:, 1]), policy)


def _measure(context: StudyContext, pairs: EnglishPairs, recipe: Recipe, printed: Any) -> dict[str, Any]:
    """Recall by bin: under the recipe, and by distance alone for each k; matches of unrelated pages with J < .5."""
    policy = context.policy()
    own, copies = printed(pairs.texts, recipe), printed([n.text for _, n in pairs.near], recipe)
    near, other = _gaps(pairs, own, copies, policy)
    bins = np.array([bin_of(copy.similarity) for _, copy in pairs.near], np.int64)
    unlike = pairs.unrelated_jaccard < 0.5
    hit, false = near.within(policy, recipe), other.within(policy, recipe)
    by_kind = {kind: np.array([copy.kind == kind for _, copy in pairs.near]) for kind in KINDS}
    return {
        "texts": len(pairs.texts),
        "recall": _by_bin(hit, bins),
        "recall_by_distance": {str(k): _by_bin(near.distance <= k, bins) for k in range(1, 11)},
        "recall_with_sketch_by_distance": {
            str(k): _by_bin((near.distance <= k) & (near.agreement >= policy.agreement), bins) for k in range(1, 11)
        },
        "recall_from_0.8_by_kind": {kind: _share(hit, of & (bins <= 1)) for kind, of in by_kind.items()},
        "false": _share(false, unlike),
        "candidates": _share(other.distance <= policy.distance, unlike),
        "mean_distance_of_unrelated": float(other.distance[unlike].mean()) if unlike.any() else None,
    }


def _by_bin(hit: NDArray[np.bool_], bins: NDArray[np.int64]) -> dict[str, Any]:
    return {BIN_NAMES[place]: _share(hit, bins == place) for place in range(len(RANGES))}


def _share(hit: NDArray[np.bool_], of: NDArray[np.bool_]) -> dict[str, Any]:
    return share(int((hit & of).sum()), int(of.sum()))


def _variant(context: StudyContext, sets: tuple[EnglishPairs, ...], recipe: Recipe, seed: int) -> dict[str, Any]:
    """The main numbers of English and mixed pages under a variant with another seed of its hashes."""
    recipe = replace(recipe, seed=recipe.seed + 1000 * seed)
    texts = [text for pairs in sets for text in (*pairs.texts, *(copy.text for _, copy in pairs.near))]
    prints, start, result = context.prints_once(texts, recipe), 0, {}
    for language, pairs in zip(LANGUAGES, sets, strict=True):
        middle = start + len(pairs.texts)
        end = middle + len(pairs.near)
        own, copies = rows(prints, range(start, middle)), rows(prints, range(middle, end))
        result[language] = _main_numbers(context, pairs, recipe, _gaps(pairs, own, copies, context.policy()))
        start = end
    return result


def _main_numbers(
    context: StudyContext, pairs: EnglishPairs, recipe: Recipe, gaps: tuple[PairGaps, PairGaps]
) -> dict[str, Any]:
    near, other = gaps
    bins = np.array([bin_of(copy.similarity) for _, copy in pairs.near], np.int64)
    policy, unlike = context.policy(), pairs.unrelated_jaccard < 0.5
    found = _by_bin(near.within(policy, recipe), bins)
    found["false"] = _share(other.within(policy, recipe), unlike)
    found["candidates"] = _share(other.distance <= policy.distance, unlike)
    return found


def _pooled(found: list[dict[str, Any]]) -> dict[str, Any]:
    """All seeds together."""
    return {
        language: {
            name: share(*(sum(one[language][name][part] for one in found) for part in ("count", "n")))
            for name in found[0][language]
        }
        for language in LANGUAGES
    }


def tables(result: dict[str, Any]) -> list[StudyTable]:
    names = BIN_NAMES[: len(RANGES)]
    bins = [(name, *(cell(result[one]["recall"][name]) for one in LANGUAGES)) for name in names]
    false = [
        (name, *(cell(result[one][key], 1_000_000) for one in LANGUAGES))
        for key, name in (("false", "matches, J < .5, a million pairs"), ("candidates", "candidates, the same"))
    ]
    kinds = [
        (f"J >= .8: {k}", *(cell(result[one]["recall_from_0.8_by_kind"][k]) for one in LANGUAGES)) for k in KINDS
    ]
    ks = ("3", "6", "7", "8", "9", "10")
    by_k = [(name, *(cell(result["english"]["recall_by_distance"][k][name]) for k in ks)) for name in names]
    title = (
        f"{result['parts']} parts of {result['pages']} English pages, and {result['mixed']['texts']} mixed pages"
    )
    return [
        StudyTable(f"Recall %: {title}", ("J", *LANGUAGES), [*bins, *false, *kinds]),
        StudyTable("English: recall % by distance alone", ("J", *(f"k = {k}" for k in ks)), by_k),
        *(_variant_table(result, language) for language in LANGUAGES),
    ]


def _variant_table(result: dict[str, Any], language: str) -> StudyTable:
    names = BIN_NAMES[: len(RANGES)]
    head = ("weights", *(f"J {name} %" for name in names), "matches J < .5 a million", "candidates")
    lines = []
    for variant, found in result["variants"].items():
        row = found[language]
        false = (cell(row[key], 1_000_000) for key in ("false", "candidates"))
        lines.append((variant, *(cell(row[name]) for name in names), *false))
    return StudyTable(f"{language.capitalize()}: other weights, {SEEDS} seeds together", head, lines)
